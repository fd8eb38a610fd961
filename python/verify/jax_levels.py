"""JAX: `jax_levels.py selftest | training | collectives | speed`."""

import os
import socket
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import jax
import jax.numpy as jnp

import ranks
import rendered_digits
import text_of_image
from answers import answer, answer_training, products_per_second


def where():
    device = jax.devices()[0]
    return "CPU" if device.platform == "cpu" else device.device_kind


def selftest():
    """JAX's own check of gradients (jax.test_util), and a product by two precisions."""
    jax.config.update("jax_enable_x64", True)
    from jax.test_util import check_grads
    key = jax.random.PRNGKey(1)
    a, b = jax.random.normal(key, (4, 4)), jax.random.normal(key, (4, 2))
    picture, kernel = jax.random.normal(key, (1, 2, 6, 6)), jax.random.normal(key, (3, 2, 3, 3))
    checks = {
        "product": (lambda x, y: jnp.tanh(x @ y), (a, b)),
        "convolution": (lambda x, k: jax.lax.conv(x, k, (1, 1), "SAME"), (picture, kernel)),
        "softmax": (lambda x: jax.nn.softmax(x), (a,)),
        "solve": (lambda x, y: jnp.linalg.solve(x + 4 * jnp.eye(4), y), (a, b)),
        "fft": (lambda x: jnp.abs(jnp.fft.rfft(x)) ** 2, (a[0],)),
    }
    failed = []
    for name, (function, arguments) in checks.items():
        try:
            check_grads(function, arguments, order=1, modes=["fwd", "rev"])
        except AssertionError:
            failed.append(name)
    exact, rough = a @ b, (a.astype(jnp.float32) @ b.astype(jnp.float32)).astype(jnp.float64)
    if not bool(jnp.allclose(exact, rough, rtol=1e-3, atol=1e-3)):
        failed.append("product of two precisions")
    answer(not failed, f"gradients of {len(checks)} operations by differences, a product by two precisions, on {where()}" if not failed
           else f"wrong: {', '.join(failed)}", failed=failed)


def adam(loss, parameters, batches, rate):
    """Trains by Adam; returns the parameters and the losses."""
    first = jax.tree_util.tree_map(jnp.zeros_like, parameters)
    second = jax.tree_util.tree_map(jnp.zeros_like, parameters)

    @jax.jit
    def step(parameters, first, second, count, batch):
        value, slopes = jax.value_and_grad(loss)(parameters, batch)
        first = jax.tree_util.tree_map(lambda m, g: 0.9 * m + 0.1 * g, first, slopes)
        second = jax.tree_util.tree_map(lambda v, g: 0.999 * v + 0.001 * g * g, second, slopes)
        moved = jax.tree_util.tree_map(
            lambda p, m, v: p - rate * (m / (1 - 0.9**count)) / (jnp.sqrt(v / (1 - 0.999**count)) + 1e-8), parameters, first, second)
        return moved, first, second, value

    losses = []
    for count, batch in enumerate(batches, 1):
        parameters, first, second, value = step(parameters, first, second, float(count), batch)
        losses.append(value)
    return parameters, [float(value) for value in losses]


def dense(key, inputs, outputs):
    return {"w": jax.random.normal(key, (inputs, outputs)) / inputs**0.5, "b": jnp.zeros(outputs)}


def apply(layer, x):
    return x @ layer["w"] + layer["b"]


def cross_entropy(scores, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(scores), labels[..., None], -1).mean()


def train_digits():
    data, labels = rendered_digits.pictures(3000, seed=3)
    side = rendered_digits.SIDE
    x, y = jnp.array(data).reshape(-1, 1, side, side), jnp.array(labels)
    keys = jax.random.split(jax.random.PRNGKey(2), 4)
    parameters = {"first": jax.random.normal(keys[0], (16, 1, 3, 3)) / 3, "second": jax.random.normal(keys[1], (32, 16, 3, 3)) / 12,
                  "out": dense(keys[2], 32 * (side // 4) ** 2, 10)}

    def scores(p, pictures):
        for name in ("first", "second"):
            pictures = jax.nn.relu(jax.lax.conv(pictures, p[name], (1, 1), "SAME"))
            pictures = jax.lax.reduce_window(pictures, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        return apply(p["out"], pictures.reshape(len(pictures), -1))

    def batches():
        for turn in range(rendered_digits.TURNS):
            order = jax.random.permutation(jax.random.PRNGKey(10 + turn), 2400)
            for start in range(0, 2400 - 63, 64):
                chosen = order[start:start + 64]
                yield x[chosen], y[chosen]

    parameters, _ = adam(lambda p, batch: cross_entropy(scores(p, batch[0]), batch[1]), parameters, batches(), 2e-3)
    return float((jax.jit(scores)(parameters, x[2400:]).argmax(1) == y[2400:]).mean())


def train_text(length=64, batch=32, steps=220, width=64, heads=4):
    codes, alphabet, nats = text_of_image.characters()
    text = jnp.array(codes)
    keys = iter(jax.random.split(jax.random.PRNGKey(4), 20))
    layers = [{"in": dense(next(keys), width, 3 * width), "mix": dense(next(keys), width, width), "up": dense(next(keys), width, 4 * width),
               "down": dense(next(keys), 4 * width, width)} for _ in range(2)]
    parameters = {"letters": 0.1 * jax.random.normal(next(keys), (len(alphabet), width)), "places": 0.1 * jax.random.normal(next(keys), (length, width)),
                  "layers": layers, "out": dense(next(keys), width, len(alphabet))}
    mask = jnp.where(jnp.tril(jnp.ones((length, length))) == 1, 0.0, -1e9)

    def calm(x):
        return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)

    def scores(p, window):
        x = p["letters"][window] + p["places"]
        for layer in p["layers"]:
            query, key, value = (part.reshape(*part.shape[:2], heads, -1).swapaxes(1, 2) for part in jnp.split(apply(layer["in"], calm(x)), 3, -1))
            weights = jax.nn.softmax(query @ key.swapaxes(-1, -2) / (width / heads) ** 0.5 + mask)
            x = x + apply(layer["mix"], (weights @ value).swapaxes(1, 2).reshape(x.shape))
            x = x + apply(layer["down"], jax.nn.gelu(apply(layer["up"], calm(x))))
        return apply(p["out"], calm(x))

    def batches():
        for turn in range(steps):
            starts = jax.random.randint(jax.random.PRNGKey(100 + turn), (batch,), 0, len(codes) - length - 1)
            yield text[starts[:, None] + jnp.arange(length + 1)]

    _, losses = adam(lambda p, window: cross_entropy(scores(p, window[:, :-1]), window[:, 1:]), parameters, batches(), 3e-3)
    return sum(losses[-20:]) / 20, nats


def training():
    accuracy = train_digits()
    loss, nats = train_text()
    answer_training(accuracy, loss, nats, where())


def one_rank(rank, world, address):
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, num_processes=world, process_id=rank)
    from jax.experimental import multihost_utils
    for turn in range(20):
        values = jnp.arange(1 << (2 + turn % 12)) % 97
        gathered = multihost_utils.process_allgather(values * (rank + 1))
        if not bool((gathered.sum(0) == values * (world * (world + 1) // 2)).all()):
            raise SystemExit(f"rank {rank}: a collective of {len(values)} numbers is wrong")
    jax.distributed.shutdown()


def meet(world):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    return ranks.meet(__file__, "gloo", [((rank, world, address), {"JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}) for rank in range(world)])


def collectives():
    ranks.try_collectives("20 sums over processes", [("gloo", world, lambda world=world: meet(world)) for world in ranks.WORLDS])


def speed():
    side = 1024 if where() == "CPU" else 4096
    product = jax.jit(lambda a: a @ a)
    a = jax.random.normal(jax.random.PRNGKey(0), (side, side))
    product(a).block_until_ready()
    rate = 2 * side**3 * products_per_second(lambda: product(a).block_until_ready()) / 1e9
    answer(True, f"{rate:.0f} GFLOP/s in float32 products of {side}, on {where()}", gflops=rate, side=side, device=where())


if __name__ == "__main__":
    if sys.argv[1] == "rank":
        one_rank(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    else:
        {"selftest": selftest, "training": training, "collectives": collectives, "speed": speed}[sys.argv[1]]()
