"""Hugging Face's Trainer: a tiny BERT, made from a configuration, that classifies the questions of TREC.

    python examples/loops/with_transformers.py FOLDER [--budget EPOCHS]

FOLDER holds train_5500.label and TREC_10.label. Nothing is downloaded.
"""

import argparse
import itertools
import tempfile
from collections import Counter
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

import autoassist

LENGTH, WORDS = 24, 4000
CLASSES = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")


def read(path):
    lines = [line.partition(" ") for line in Path(path).read_text(encoding="utf-8").splitlines()]
    return [(CLASSES.index(label.partition(":")[0]), question.lower().split()) for label, _, question in lines]


class Questions:
    """Items as Trainer wants them: dicts of token ids, padded to one length, and the label."""

    def __init__(self, questions, vocabulary):
        self.questions, self.vocabulary = questions, vocabulary

    def __len__(self):
        return len(self.questions)

    def __getitem__(self, index):
        label, words = self.questions[index]
        known = [self.vocabulary.get(word, 1) for word in words[:LENGTH]]
        padding = [0] * (LENGTH - len(known))
        return {
            "input_ids": torch.tensor(known + padding),
            "attention_mask": torch.tensor([1] * len(known) + padding),
            "labels": label,
        }


class AssistedTrainer(Trainer):
    """Trains on the batches of a loader, and reports their losses."""

    def __init__(self, *args, loader, **options):
        super().__init__(*args, **options)
        self.loader = loader

    def get_train_dataloader(self):
        return self.loader

    def get_batch_samples(self, epoch_iterator, num_batches, device):
        # Trainer's own looks into dicts, to count tokens.
        return list(itertools.islice(epoch_iterator, num_batches)), None

    def compute_loss(self, model, inputs, return_outputs=False, **ignored):
        if not isinstance(inputs, autoassist.Batch):  # evaluation
            return super().compute_loss(model, inputs, return_outputs)
        batch = inputs.to(self.args.device, non_blocking=True)
        data = dict(batch.data)
        labels = data.pop("labels")
        losses = cross_entropy(model(**data).logits, labels, reduction="none")
        return self.loader.report(batch, losses)


parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path)
parser.add_argument("--budget", type=float, default=5, help="Boss epochs")
args = parser.parse_args()
set_seed(0)

train, test = read(args.folder / "train_5500.label"), read(args.folder / "TREC_10.label")
counts = Counter(word for _, words in train for word in words)
vocabulary = {word: index for index, (word, _) in enumerate(counts.most_common(WORDS), start=2)}
train_set, test_set = Questions(train, vocabulary), Questions(test, vocabulary)

size = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
config = BertConfig(vocab_size=WORDS + 2, num_labels=len(CLASSES), max_position_embeddings=LENGTH, **size)
model = BertForSequenceClassification(config)

with (
    tempfile.TemporaryDirectory() as folder,
    autoassist.Loader(train_set, batch_size=32, budget=args.budget, classes=len(CLASSES)) as loader,
):
    arguments = TrainingArguments(
        folder, max_steps=len(loader), learning_rate=1e-3, warmup_steps=50, logging_steps=100, save_strategy="no",
        report_to=[], disable_tqdm=True, per_device_eval_batch_size=250,
    )  # fmt: skip
    trainer = AssistedTrainer(model, arguments, eval_dataset=test_set, loader=loader)
    trainer.train()
    print(f"{loader.progress:.0%}, kept {loader.stats()['kept_fraction']:.2f}")
    predicted = trainer.predict(test_set)
accuracy = (predicted.predictions.argmax(1) == predicted.label_ids).mean()
print(f"test accuracy {accuracy:.3f}")
