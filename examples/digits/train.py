"""Train a small convolutional network on the handwritten digits that scikit-learn ships.

1,797 grey 8 × 8 pictures; a fifth is held out for testing. Uses a GPU when there is one.
Writes model.pt and TensorBoard events to TRAIL_OUTPUT_DIR (or ./output outside of a run).
"""

import argparse
import os
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.tensorboard import SummaryWriter


def build_model() -> nn.Module:
    """Input: (batch, 1, 8, 8) floats in 0..1. Output: (batch, 10) logits."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(64 * 4 * 4, 10),
    )


def load_data(seed: int) -> tuple[TensorDataset, TensorDataset]:
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target, dtype=torch.long)
    train, test = train_test_split(range(len(labels)), test_size=0.2, random_state=seed, stratify=labels)
    return TensorDataset(images[train], labels[train]), TensorDataset(images[test], labels[test])


@torch.no_grad()
def accuracy(model: nn.Module, data: TensorDataset, device: torch.device) -> float:
    model.eval()
    images, labels = (tensor.to(device) for tensor in data.tensors)
    return (model(images).argmax(dim=1) == labels).float().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    torch.manual_seed(arguments.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    output = Path(os.environ.get("TRAIL_OUTPUT_DIR", "output"))
    output.mkdir(parents=True, exist_ok=True)
    print(f"torch {torch.__version__} on {device}", flush=True)

    train, test = load_data(arguments.seed)
    model = build_model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.learning_rate)
    loss_function = nn.CrossEntropyLoss()
    writer = SummaryWriter(output / "tensorboard")
    step = 0
    for epoch in range(1, arguments.epochs + 1):
        model.train()
        total = 0.0
        for images, labels in DataLoader(train, batch_size=arguments.batch_size, shuffle=True):
            images, labels = images.to(device), labels.to(device)
            optimizer.zero_grad()
            loss = loss_function(model(images), labels)
            loss.backward()
            optimizer.step()
            writer.add_scalar("loss/train", loss.item(), step)
            total += loss.item() * len(labels)
            step += 1
        score = accuracy(model, test, device)
        writer.add_scalar("accuracy/test", score, step)
        print(f"epoch {epoch:2d}  loss {total / len(train):.4f}  test accuracy {score:.2%}", flush=True)
    writer.close()

    torch.save({"model": model.state_dict(), "epochs": arguments.epochs, "accuracy": score}, output / "model.pt")
    print(f"test accuracy: {score:.2%}  checkpoint: {output / 'model.pt'}")


if __name__ == "__main__":
    main()
