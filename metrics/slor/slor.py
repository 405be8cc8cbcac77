"""slor for Hugging Face evaluate. The mathematics is in textfluency/slor.py."""

import datasets
import evaluate

try:
    from textfluency import aggregation, inputs
    from textfluency import slor as mathematics
except ImportError as error:
    raise ImportError("slor needs its library: pip install textfluency") from error

_CITATION = """\
@inproceedings{kann-etal-2018-sentence,
    title = "Sentence-Level Fluency Evaluation: References Help, But Can Be Spared!",
    author = "Kann, Katharina and Rothe, Sascha and Filippova, Katja",
    booktitle = "Proceedings of the 22nd Conference on Computational Natural Language Learning",
    year = "2018",
    pages = "313--323",
}
"""

_DESCRIPTION = """\
How fluent is a text, with the rarity of its words taken out? A language model's log-probability of the text minus the \
log-probability of its words by themselves, per word. Needs no references. Higher is better.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (`list` of `str`): the texts to score.
    model (`str` or model object, *optional*): folder, Hub id or object of a causal language model; default: the config.
    tokenizer (tokenizer object, *optional*): belongs to a model object.
    unigrams (`str`, *optional*): folder with the token counts of that model, made by `python -m training.unigrams`.
    device (`str`, defaults to `"cpu"`): any torch device.
    dtype (`str`, defaults to `"float32"`): any torch dtype.
    include_eos (`bool`, defaults to `True`): count the end of the text as a token, in all terms alike.
    normalize (`str`, defaults to `"auto"`): restore natural spacing where a text is tokenised; `"off"` leaves it.
    split_sentences (`bool`, defaults to `False`): score each sentence alone and average.
    use_aggregator (`bool`, defaults to `True`): `False` gives one list per key instead of means.
Returns:
    slor (`float`): the score; higher is better, unbounded.
    nce (`float`): log-probability per token; higher is better, at most 0.
    ppl (`float`): perplexity; lower is better, at least 1.
    empty (`float`): how many texts had nothing to score; they are left out of the means. With aggregation only.
    oov_rate (`list` of `float`): share of unknown words in each text. Without aggregation only.
    length (`list` of `float`): tokens of each text, end sign included. Without aggregation only.
Examples:
    >>> slor = evaluate.load("slor")
    >>> texts = ["He is a citizen of France.", "He is citizen a France of."]
    >>> result = slor.compute(predictions=texts, use_aggregator=False)
    >>> result["slor"][0] > result["slor"][1]
    True
    >>> sorted(slor.compute(predictions=texts))
    ['empty', 'nce', 'ppl', 'slor']
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class Slor(evaluate.Metric):
    def _info(self):
        return evaluate.MetricInfo(
            module_type="metric",
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features({"predictions": datasets.Value("string")}),
            reference_urls=["https://aclanthology.org/K18-1031"],
            license="Apache-2.0",
        )

    def compute(self, *, predictions=None, references=None, **kwargs):
        """Checks the input and computes the scores."""
        if predictions is not None or self.writer is None:
            predictions = inputs.texts("predictions", predictions)
        return super().compute(predictions=predictions, **kwargs)

    def add_batch(self, *, predictions=None, references=None, **kwargs):
        """Checks and keeps a batch of texts."""
        super().add_batch(predictions=inputs.texts("predictions", predictions), **kwargs)

    def add(self, *, prediction=None, reference=None, **kwargs):
        """Checks and keeps one text."""
        super().add(prediction=inputs.texts("prediction", [prediction])[0], **kwargs)

    def _compute(
        self,
        predictions,
        model=None,
        tokenizer=None,
        unigrams=None,
        device="cpu",
        dtype="float32",
        include_eos=True,
        normalize="auto",
        split_sentences=False,
        use_aggregator=True,
    ):
        models = mathematics.load(
            self.config_name, model=model, tokenizer=tokenizer, unigrams=unigrams, device=device, dtype=dtype
        )
        features = mathematics.extract(
            predictions,
            models,
            include_eos=include_eos,
            normalize=normalize,
            split_sentences=split_sentences,
        )
        scores = [mathematics.score(text) for text in features]
        return mathematics.aggregate(scores) if use_aggregator else aggregation.columns(scores)

    def explain(self, prediction, *, model=None, tokenizer=None, unigrams=None, **options):
        """The tokens of one text with their log-probabilities; print it."""
        models = mathematics.load(self.config_name, model=model, tokenizer=tokenizer, unigrams=unigrams)
        return mathematics.explain(inputs.texts("prediction", [prediction])[0], models, **options)

    def signature(self, *, model=None, tokenizer=None, unigrams=None, **options):
        """One line that names everything the scores depend on; give it the options that `compute` was given."""
        models = mathematics.load(self.config_name, model=model, tokenizer=tokenizer, unigrams=unigrams)
        return mathematics.signature(models, **options)
