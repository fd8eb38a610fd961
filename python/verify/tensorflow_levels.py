"""TensorFlow: `tensorflow_levels.py selftest | training | collectives | speed`."""

import json
import os
import socket
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import ranks
import rendered_digits
import text_of_image
from answers import answer, answer_training, products_per_second


def where():
    cards = tf.config.list_physical_devices("GPU")
    return tf.config.experimental.get_device_details(cards[0]).get("device_name", "GPU") if cards else "CPU"


def selftest():
    """TensorFlow's own comparison of gradients with differences (tf.test.compute_gradient)."""
    tf.random.set_seed(1)
    a, b = tf.random.normal((4, 4), dtype=tf.float64), tf.random.normal((4, 2), dtype=tf.float64)
    picture, kernel = tf.random.normal((1, 5, 5, 2), dtype=tf.float64), tf.random.normal((3, 3, 2, 3), dtype=tf.float64)
    checks = {
        "product": (lambda x, y: tf.tanh(x @ y), [a, b]),
        "convolution": (lambda x, k: tf.nn.conv2d(x, k, 1, "SAME"), [picture, kernel]),
        "softmax": (lambda x: tf.nn.softmax(x), [a]),
        "solve": (lambda x, y: tf.linalg.solve(x + 4 * tf.eye(4, dtype=tf.float64), y), [a, b]),
    }
    failed = []
    for name, (function, arguments) in checks.items():
        by_theory, by_differences = tf.test.compute_gradient(function, arguments)
        if any(np.abs(t - d).max() > 1e-4 for t, d in zip(by_theory, by_differences)):
            failed.append(name)
    answer(not failed, f"gradients of {len(checks)} operations by differences, on {where()}" if not failed else f"wrong gradients: {', '.join(failed)}", failed=failed)


def train_digits():
    tf.keras.utils.set_random_seed(2)  # layers and shuffling too, which tf.random.set_seed leaves to chance
    data, labels = rendered_digits.pictures(3000, seed=3)
    side = rendered_digits.SIDE
    x, y = np.array(data, np.float32).reshape(-1, side, side, 1), np.array(labels)
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Conv2D(16, 3, padding="same", activation="relu"), layers.MaxPool2D(), layers.Conv2D(32, 3, padding="same", activation="relu"),
                                 layers.MaxPool2D(), layers.Flatten(), layers.Dense(10)])
    model.compile(tf.keras.optimizers.Adam(2e-3), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model.fit(x[:2400], y[:2400], batch_size=64, epochs=rendered_digits.TURNS, verbose=0)
    return float(model.evaluate(x[2400:], y[2400:], verbose=0)[1])


def train_text(length=64, batch=32, steps=220, width=64):
    tf.keras.utils.set_random_seed(4)
    codes, alphabet, nats = text_of_image.characters()
    layers = tf.keras.layers
    window = tf.keras.Input((length, width))
    x = window
    mask = np.tril(np.ones((1, length, length), bool))
    for _ in range(2):
        calm = layers.LayerNormalization()(x)
        x = layers.Add()([x, layers.MultiHeadAttention(4, width // 4)(calm, calm, attention_mask=mask)])
        calm = layers.LayerNormalization()(x)
        x = layers.Add()([x, layers.Dense(width)(layers.Dense(4 * width, activation="gelu")(calm))])
    body = tf.keras.Model(window, layers.Dense(len(alphabet))(layers.LayerNormalization()(x)))
    letters = tf.Variable(tf.random.normal((len(alphabet), width), stddev=0.1))
    places = tf.Variable(tf.random.normal((length, width), stddev=0.1))
    variables = [letters, places, *body.trainable_variables]
    optimizer = tf.keras.optimizers.Adam(3e-3)
    optimizer.build(variables)

    @tf.function
    def step(codes):
        with tf.GradientTape() as tape:
            scores = body(tf.gather(letters, codes[:, :-1]) + places, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(codes[:, 1:], scores))
        slopes = [tf.convert_to_tensor(slope) for slope in tape.gradient(loss, variables)]
        optimizer.apply_gradients(zip(slopes, variables))
        return loss

    text, chance, losses = np.array(codes, np.int32), np.random.default_rng(5), []
    for _ in range(steps):
        starts = chance.integers(0, len(codes) - length - 1, batch)
        losses.append(float(step(tf.constant(text[starts[:, None] + np.arange(length + 1)]))))
    return sum(losses[-20:]) / 20, nats


def training():
    accuracy = train_digits()
    loss, nats = train_text()
    answer_training(accuracy, loss, nats, where())


def one_rank(rank, world):
    options = tf.distribute.experimental.CommunicationOptions(implementation=tf.distribute.experimental.CommunicationImplementation.RING)
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)

    def total(values):
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(lambda: tf.identity(values)), axis=None)

    for turn in range(12):
        values = tf.cast(tf.range(1 << (4 + turn)) % 97, tf.float32)
        if not np.array_equal(total(values * (rank + 1)).numpy(), values.numpy() * (world * (world + 1) // 2)):
            raise SystemExit(f"rank {rank}: an all-reduce of {len(values)} numbers is wrong")
    print("done", flush=True)


def free_addresses(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return addresses


def meet(world):
    addresses = free_addresses(world)

    def environment(rank):
        cluster = json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}})
        return {"TF_CONFIG": cluster, "CUDA_VISIBLE_DEVICES": "-1", "TF_NUM_INTRAOP_THREADS": "1"}

    # Workers that leave at different times may complain while they end; what they computed has been said by then.
    return ranks.meet(__file__, "ring", [((rank, world), environment(rank)) for rank in range(world)], lambda out: "done" in out.splitlines())


def collectives():
    ranks.try_collectives("12 all-reduces", [("ring", world, lambda world=world: meet(world)) for world in ranks.WORLDS])


def speed():
    side = 1024 if where() == "CPU" else 4096
    a = tf.random.normal((side, side))
    product = tf.function(lambda: tf.linalg.matmul(a, a))
    product()
    rate = 2 * side**3 * products_per_second(lambda: product().numpy()) / 1e9
    answer(True, f"{rate:.0f} GFLOP/s in float32 products of {side}, on {where()}", gflops=rate, side=side, device=where())


if __name__ == "__main__":
    if sys.argv[1] == "rank":
        one_rank(int(sys.argv[2]), int(sys.argv[3]))
    else:
        {"selftest": selftest, "training": training, "collectives": collectives, "speed": speed}[sys.argv[1]]()
