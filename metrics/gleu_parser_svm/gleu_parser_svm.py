"""gleu_parser_svm for Hugging Face evaluate. The mathematics is in textfluency/gleu_parser_svm.py."""

import datasets
import evaluate

try:
    from textfluency import aggregation, inputs
    from textfluency import gleu_parser_svm as mathematics
except ImportError as error:
    raise ImportError("gleu_parser_svm needs its library: pip install textfluency") from error

_CITATION = """\
@inproceedings{mutton-etal-2007-gleu,
    title = "{GLEU}: Automatic Evaluation of Sentence-Level Fluency",
    author = "Mutton, Andrew and Dras, Mark and Wan, Stephen and Dale, Robert",
    booktitle = "Proceedings of the 45th Annual Meeting of the Association of Computational Linguistics",
    year = "2007",
    pages = "344--351",
}
"""

_DESCRIPTION = """\
How badly do parsers struggle with a text? Tree fragments, the probability of the best parse, and the words and parses \
that Link Grammar rejects, combined by a linear support vector machine. Needs no references. Higher is better.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (`list` of `str`): the texts to score; several sentences are averaged.
    parser (`str`, *optional*): folder of a dependency parser of yours, or `spacy:` and the name of a spaCy pipeline.
    workers (`int`, defaults to `0`): processes for Link Grammar; 0 parses in this one.
    normalize (`str`, defaults to `"auto"`): restore natural spacing where a text is tokenised; `"off"` leaves it.
    use_aggregator (`bool`, defaults to `True`): `False` gives one list per key instead of means.
Returns:
    gleu_parser_svm (`float`): decision value; above 0 reads as a written sentence, below as a glued one; unbounded.
    fragments (`float`): pieces of the dependency tree, from 0 to 1; lower is better.
    parse_log_probability (`float`): of the best parse, from 0 to 1; higher is better.
    null_tokens (`float`): words that Link Grammar leaves out, by length; lower is better.
    invalid_parses (`float`): share of Link Grammar's parses that break its later rules.
    timeouts (`float`): how many sentences took Link Grammar too long.
    empty (`float`): how many texts had nothing to score; they are left out of the means. With aggregation only.
Examples:
    >>> gleu_parser_svm = evaluate.load("gleu_parser_svm")
    >>> texts = ["Everybody likes big cakes with cream.", "Cakes with everybody cream big likes."]
    >>> result = gleu_parser_svm.compute(predictions=texts, use_aggregator=False)
    >>> result["gleu_parser_svm"][0] > result["gleu_parser_svm"][1]
    True
    >>> sorted(gleu_parser_svm.compute(predictions=texts))
    ['empty', 'fragments', 'gleu_parser_svm', 'invalid_parses', 'null_tokens', 'parse_log_probability', 'timeouts']
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class GleuParserSvm(evaluate.Metric):
    def _info(self):
        return evaluate.MetricInfo(
            module_type="metric",
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features({"predictions": datasets.Value("string")}),
            reference_urls=["https://aclanthology.org/P07-1044"],
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

    def _compute(self, predictions, parser=None, workers=0, normalize="auto", use_aggregator=True):
        models = mathematics.load(self.config_name, parser=parser, workers=workers)
        features = mathematics.extract(predictions, models, normalization=normalize)
        scores = [mathematics.score(text, models.classifier) for text in features]
        return mathematics.aggregate(scores) if use_aggregator else aggregation.columns(scores)

    def explain(self, prediction, **options):
        """The trees of one text, what the parsers left out, and what each judgement contributes; print it."""
        return mathematics.explain(
            inputs.texts("prediction", [prediction])[0], mathematics.load(self.config_name), **options
        )

    def signature(self, **options):
        """One line that names everything the scores depend on."""
        return mathematics.signature(mathematics.load(self.config_name), **options)
