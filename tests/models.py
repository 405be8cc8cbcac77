"""Small models for the tests: made on the spot, tiny, and with known answers."""

import json

import numpy as np
import torch

from textfluency.language_model import LanguageModel


class SpaceTokenizer:
    """Words between spaces; ids in the order of a fixed vocabulary."""

    def __init__(self, vocabulary):
        self.vocabulary = vocabulary

    def tokenize(self, text):
        return text.split()

    def encode(self, text):
        return [self.vocabulary.index(word) for word in text.split()]


def stand_in(model_probabilities, unigram_probabilities, end_probability=1.0, window=64):
    """A model that gives each word the probability written down for it, whatever came before."""
    vocabulary = ["<s>", "</s>", *model_probabilities]
    values = torch.tensor([1.0, end_probability, *model_probabilities.values()], dtype=torch.float64).log()
    table = np.log([1.0, end_probability, *unigram_probabilities.values()])
    return LanguageModel(
        name="stand-in",
        tokenizer=SpaceTokenizer(vocabulary),
        next_token_log_probabilities=lambda ids, targets: values[targets],
        start=0,
        end=1,
        unknown=None,
        window=window,
        unigram_log_probabilities=table,
        device="cpu",
    )


def save_tiny_gpt2(folder, context=32):
    """A GPT-2 with random weights and a tokenizer of whole words and characters, saved as transformers does."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<|endoftext|>", "<unk>"], show_progress=False)
    tokenizer.train_from_iterator(
        ["He is a citizen of France.", "The cat sat on the mat.", "abcdefghijklmnopqrstuvwxyz"], trainer
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>", unk_token="<unk>")
    torch.manual_seed(0)
    size = {"n_positions": context, "n_embd": 32, "n_layer": 2, "n_head": 2}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(fast), bos_token_id=0, eos_token_id=0, **size))
    for parameter in model.parameters():
        parameter.data.mul_(3)  # far from uniform, so that a mistake shows
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    from textfluency import unigrams

    unigrams.save(np.arange(len(fast)), folder)
    return folder


def save_tiny_bert(folder, architecture):
    import transformers

    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    getattr(transformers, architecture)(transformers.BertConfig(vocab_size=40, **size)).save_pretrained(folder)
    assert json.loads((folder / "config.json").read_text())["architectures"] == [architecture]
    return folder
