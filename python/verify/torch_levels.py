"""PyTorch: `torch_levels.py selftest | training | collectives | speed`."""

import sys
import tempfile

import torch
from torch import nn

import ranks
import rendered_digits
import text_of_image
from answers import answer, answer_training, not_tried, products_per_second

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WHERE = torch.cuda.get_device_name(0) if DEVICE == "cuda" else "CPU"


def selftest():
    """The framework's own checks of itself: gradients by differences, and its comparison of an operation's kernels."""
    torch.manual_seed(1)
    double = dict(dtype=torch.float64, device=DEVICE, requires_grad=True)
    checks = {
        "linear": (nn.functional.linear, (torch.randn(4, 5, **double), torch.randn(3, 5, **double), torch.randn(3, **double))),
        "conv2d": (nn.functional.conv2d, (torch.randn(1, 2, 5, 5, **double), torch.randn(3, 2, 3, 3, **double))),
        "layer_norm": (lambda x: nn.functional.layer_norm(x, (6,)), (torch.randn(4, 6, **double),)),
        "attention": (nn.functional.scaled_dot_product_attention, tuple(torch.randn(1, 1, 4, 4, **double) for _ in range(3))) if hasattr(nn.functional, "scaled_dot_product_attention") else None,
        "fft": (lambda x: torch.view_as_real(torch.fft.rfft(x)), (torch.randn(8, **double),)),
        "solve": (lambda a, b: torch.linalg.solve(a + 4 * torch.eye(4, dtype=a.dtype, device=a.device), b), (torch.randn(4, 4, **double), torch.randn(4, 2, **double))),
    }
    failed = [name for name, check in checks.items() if check and not torch.autograd.gradcheck(check[0], check[1], raise_exception=False)]
    left, right = torch.randn(130, 70, device=DEVICE), torch.randn(70, 90, device=DEVICE)
    torch.testing.assert_close((left @ right).double().cpu(), left.double().cpu() @ right.double().cpu(), rtol=1e-3, atol=1e-3)
    answer(not failed, f"gradients of {len([c for c in checks.values() if c])} operations by differences, a product by two precisions, on {WHERE}" if not failed
           else f"wrong gradients: {', '.join(failed)}", failed=failed)


def train_digits():
    torch.manual_seed(2)
    data, labels = rendered_digits.pictures(3000, seed=3)
    side = rendered_digits.SIDE
    x = torch.tensor(data, device=DEVICE).reshape(-1, 1, side, side)
    y = torch.tensor(labels, device=DEVICE)
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Flatten(), nn.Linear(32 * (side // 4) ** 2, 10)).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(rendered_digits.TURNS):
        for batch in torch.randperm(2400).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
    with torch.no_grad():
        return (model(x[2400:]).argmax(1) == y[2400:]).float().mean().item()


class Reader(nn.Module):
    def __init__(self, letters, length, width=64):
        super().__init__()
        self.letters, self.places = nn.Embedding(letters, width), nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers, self.out = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(width, letters)
        self.register_buffer("mask", torch.triu(torch.full((length, length), float("-inf")), 1))
        self.register_buffer("order", torch.arange(length))

    def forward(self, codes):
        return self.out(self.layers(self.letters(codes) + self.places(self.order), mask=self.mask))


def train_text(length=64, batch=32, steps=220):
    torch.manual_seed(4)
    codes, alphabet, nats = text_of_image.characters()
    text = torch.tensor(codes, device=DEVICE)
    model = Reader(len(alphabet), length).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(steps):
        starts = torch.randint(len(codes) - length - 1, (batch,), device=DEVICE)
        window = text[starts[:, None] + torch.arange(length + 1, device=DEVICE)]
        loss = nn.functional.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses[-20:]) / 20, nats


def training():
    accuracy = train_digits()
    loss, nats = train_text()
    answer_training(accuracy, loss, nats, WHERE)


def one_rank(rank, world, backend, meeting):
    import torch.distributed as dist
    dist.init_process_group(backend, init_method=f"file://{meeting}", rank=rank, world_size=world)
    device = f"cuda:{rank}" if backend == "nccl" else "cpu"
    chance = torch.Generator().manual_seed(world)
    for turn in range(60):
        size = int(torch.randint(1, 1 << (4 + turn % 17), (1,), generator=chance))
        kind = (torch.float32, torch.float64, torch.int64)[turn % 3]
        values = (torch.arange(size) % 97).to(kind).to(device)
        mine = values * (rank + 1)
        dist.all_reduce(mine)
        if not torch.equal(mine, values * (world * (world + 1) // 2)):
            raise SystemExit(f"rank {rank}: an all-reduce of {size} {kind} is wrong")
        sent = values * 3 if rank == turn % world else torch.zeros_like(values)
        dist.broadcast(sent, turn % world)
        if not torch.equal(sent, values * 3):
            raise SystemExit(f"rank {rank}: a broadcast of {size} {kind} is wrong")
    dist.barrier()
    dist.destroy_process_group()


def meet(world, backend):
    with tempfile.TemporaryDirectory() as folder:
        return ranks.meet(__file__, backend, [((rank, world, backend, f"{folder}/meeting"), {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"})
                                              for rank in range(world)])


def collectives():
    import torch.distributed as dist
    if not dist.is_available():
        not_tried("this build has no torch.distributed")
    attempts = []
    for world in ranks.WORLDS:
        backends = ["gloo"] + (["nccl"] if dist.is_nccl_available() and torch.cuda.device_count() >= world else [])
        attempts += [(backend, world, lambda world=world, backend=backend: meet(world, backend)) for backend in backends]
    ranks.try_collectives("60 all-reduces and broadcasts", attempts)


def speed():
    side = 4096 if DEVICE == "cuda" else 1024
    a = torch.randn(side, side, device=DEVICE)
    wait = torch.cuda.synchronize if DEVICE == "cuda" else lambda: None

    def product():
        a @ a
        wait()

    for _ in range(3):
        product()
    rate = 2 * side**3 * products_per_second(product) / 1e9
    answer(True, f"{rate:.0f} GFLOP/s in float32 products of {side}, on {WHERE}, {torch.get_num_threads()} threads", gflops=rate, side=side, device=WHERE)


if __name__ == "__main__":
    if sys.argv[1] == "rank":
        one_rank(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5])
    else:
        {"selftest": selftest, "training": training, "collectives": collectives, "speed": speed}[sys.argv[1]]()
