"""Every test run has a Hugging Face home of its own and no network."""

import os
import shutil
import tempfile

HOME = tempfile.mkdtemp(prefix="textfluency-tests-")
os.environ.update(
    HF_HOME=HOME,
    HF_EVALUATE_OFFLINE="1",
    HF_HUB_OFFLINE="1",
    HF_UPDATE_DOWNLOAD_COUNTS="0",
    TOKENIZERS_PARALLELISM="false",
)
for variable in ("HF_MODULES_CACHE", "HF_METRICS_CACHE", "TEXTFLUENCY_WEIGHTS"):
    os.environ.pop(variable, None)


def pytest_configure(config):
    import torch

    torch.set_num_threads(1)  # two workers share two cores


def pytest_unconfigure(config):
    shutil.rmtree(HOME, ignore_errors=True)
