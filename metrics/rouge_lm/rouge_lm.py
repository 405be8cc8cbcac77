"""rouge_lm for Hugging Face evaluate. The mathematics is in textfluency/rouge_lm.py."""

import datasets
import evaluate

try:
    from textfluency import aggregation, inputs, wpslor
    from textfluency import rouge_lm as mathematics
except ImportError as error:
    raise ImportError("rouge_lm needs its library: pip install textfluency") from error

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
Does a text say what a reference says, and is it fluent? ROUGE-L against the best reference and the language-model \
score WPSLOR, each in standard deviations from its mean, added up. 0 is an average system output, higher is better.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (`list` of `str`): the texts to score.
    references (`list` of `str` or of `list` of `str`): one or more references per prediction; the best one counts.
    normalization (`str` or `dict`, defaults to `"stored"`): whose mean and deviation make the z-scores: stored ones,
        those of this `"batch"` (as in the paper), a file saved by `fit(...).save`, or the numbers themselves.
    model (`str` or model object, *optional*): folder, Hub id or object of a causal language model for the fluent half.
    tokenizer (`str`, defaults to `"words"`): words of any script, or `"rouge_score"` as google's package splits them.
    beta (`float`, defaults to `1.0`): weight of recall against precision in ROUGE-L.
    unigrams (`str`, *optional*): folder with the token counts of that model, made by `python -m training.unigrams`.
    model_tokenizer (tokenizer object, *optional*): belongs to a model object.
    use_aggregator (`bool`, defaults to `True`): `False` gives one list per key instead of means.
Returns:
    rouge_lm (`float`): the score; 0 is average, higher is better. NaN for a `"batch"`, whose mean is 0 by construction.
    rouge_l (`float`): longest common subsequence with the best reference, F-measure; 0 to 1.
    wpslor (`float`): language-model fluency per word piece; higher is better.
    empty (`float`): how many texts had nothing to score. With aggregation only.
    z_rouge (`list` of `float`): ROUGE-L in deviations from its mean. Without aggregation only.
    z_wpslor (`list` of `float`): WPSLOR in deviations from its mean. Without aggregation only.
    best_reference (`list` of `float`): which reference counted. Without aggregation only.
Examples:
    >>> rouge_lm = evaluate.load("rouge_lm")
    >>> result = rouge_lm.compute(
    ...     predictions=["Police killed the gunman.", "Gunman the police killed."],
    ...     references=[["Police shot the gunman.", "The gunman was killed by police."], ["Police shot the gunman."]],
    ...     use_aggregator=False,
    ... )
    >>> result["rouge_lm"][0] > result["rouge_lm"][1]
    True
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class RougeLm(evaluate.Metric):
    def _info(self):
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            module_type="metric",
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features({"predictions": text, "references": datasets.Sequence(text)}),
            reference_urls=["https://aclanthology.org/K18-1031"],
            license="Apache-2.0",
        )

    def compute(self, *, predictions=None, references=None, **kwargs):
        """Checks the input and computes the scores."""
        if predictions is not None or self.writer is None:
            predictions = inputs.texts("predictions", predictions)
            references = inputs.reference_lists(references, len(predictions))
        return super().compute(predictions=predictions, references=references, **kwargs)

    def add_batch(self, *, predictions=None, references=None, **kwargs):
        """Checks and keeps a batch of texts."""
        predictions = inputs.texts("predictions", predictions)
        references = inputs.reference_lists(references, len(predictions))
        super().add_batch(predictions=predictions, references=references, **kwargs)

    def add(self, *, prediction=None, reference=None, **kwargs):
        """Checks and keeps one text."""
        (prediction,) = inputs.texts("prediction", [prediction])
        (references,) = inputs.reference_lists([reference], 1)
        super().add(prediction=prediction, reference=references, **kwargs)

    def _compute(
        self,
        predictions,
        references,
        normalization="stored",
        model=None,
        tokenizer="words",
        beta=1.0,
        unigrams=None,
        model_tokenizer=None,
        use_aggregator=True,
    ):
        half = None if model is None else wpslor.load(model=model, tokenizer=model_tokenizer, unigrams=unigrams)
        models = mathematics.load(self.config_name, language_model=half)
        features = mathematics.extract(predictions, references, models, tokenizer=tokenizer)
        chosen = mathematics.choose_normalization(normalization, features, models, beta=beta)
        scores = [mathematics.score(text, models, normalization=chosen, beta=beta) for text in features]
        if use_aggregator:
            return mathematics.aggregate(scores, models, chosen)
        return aggregation.columns(scores)

    def fit(self, predictions, references, **options):
        """Mean and deviation of both halves over these texts, to be passed as `normalization` or saved as JSON."""
        predictions = inputs.texts("predictions", predictions)
        references = inputs.reference_lists(references, len(predictions))
        return mathematics.fit(predictions, references, mathematics.load(self.config_name), **options)

    def explain(self, prediction, references, **options):
        """The common subsequence and the tokens behind the score of one text; print it."""
        (checked,) = inputs.reference_lists([references], 1)
        return mathematics.explain(prediction, checked, mathematics.load(self.config_name), **options)

    def signature(self, **options):
        """One line that names everything the scores depend on."""
        return mathematics.signature(mathematics.load(self.config_name), **options)
