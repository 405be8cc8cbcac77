"""tree_accuracy for Hugging Face evaluate. The mathematics is in textfluency/tree_accuracy.py."""

import datasets
import evaluate

try:
    from textfluency import aggregation as per_text
    from textfluency import inputs
    from textfluency import tree_accuracy as mathematics
except ImportError as error:
    raise ImportError("tree_accuracy needs its library: pip install textfluency") from error

_CITATION = """\
@inproceedings{bangalore-etal-2000-evaluation,
    title = "Evaluation Metrics for Generation",
    author = "Bangalore, Srinivas and Rambow, Owen and Whittaker, Steve",
    booktitle = "{INLG}{'}2000 Proceedings of the First International Conference on Natural Language Generation",
    year = "2000",
    pages = "1--8",
}
"""

_DESCRIPTION = """\
Are the words of the reference there, and in an order that its syntax allows? Edit accuracies over the string and over \
the dependency tree of a reference, and the two regressions on human judgements built from them. 1 is a perfect copy.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (`list` of `str`, or of token lists): the texts to score.
    references (`list` of `str` or of `list` of `str`): one or more references per prediction; the best one counts.
    trees (`list`, *optional*): per prediction the tree of each reference, as heads (from 1, 0 is the root) or CoNLL-U.
    tokenizer (function, *optional*): text to tokens; default: words and punctuation marks.
    costs (`tuple` of three `int`, defaults to `(4, 3, 3)`): of a substitution, an insertion and a deletion.
    aggregation (`str`, defaults to `"mean"`): mean over texts, or `"pooled"`: 1 - all errors / all reference tokens.
    regressions (`bool`, defaults to `False`): add the paper's two fits that include sentence length.
    use_aggregator (`bool`, defaults to `True`): `False` gives one list per key instead of means.
Returns:
    tree_accuracy (`float`): the headline, equal to simple_tree_accuracy; at most 1, higher is better.
    simple_string_accuracy (`float`): 1 - (substitutions + insertions + deletions) / reference tokens.
    generation_string_accuracy (`float`): the same with a move counted once.
    simple_tree_accuracy (`float`): the same over the treelets of the reference's tree.
    generation_tree_accuracy (`float`): the same over treelets, with a move counted once.
    understandability (`float`): the paper's fit of human understandability; 1 for a perfect copy.
    quality (`float`): the paper's fit of human quality; 1 for a perfect copy.
    best_reference (`list` of `int`): which reference counted for each text. Without aggregation only.
    substitutions (`list` of `int`): operations of the string alignment. Without aggregation only, as the next three.
    insertions (`list` of `int`): likewise.
    deletions (`list` of `int`): likewise.
    moves (`list` of `int`): tokens that are both deleted and inserted.
Examples:
    >>> tree_accuracy = evaluate.load("tree_accuracy")
    >>> result = tree_accuracy.compute(
    ...     predictions=["There was estimate for phase the second no cost"],
    ...     references=["There was no cost estimate for the second phase"],
    ...     trees=[[[5, 5, 5, 5, 0, 5, 9, 9, 6]]],
    ... )
    >>> round(result["simple_string_accuracy"], 4), round(result["generation_string_accuracy"], 4)
    (0.4444, 0.5556)
    >>> round(result["simple_tree_accuracy"], 4), round(result["generation_tree_accuracy"], 4)
    (0.3333, 0.6667)
"""


def _texts_or_tokens(name, values):
    """Strings, or token lists where the first text is one."""
    values = values if values is None or isinstance(values, str) or hasattr(values, "columns") else list(values)
    if isinstance(values, list) and values and not isinstance(values[0], str) and hasattr(values[0], "__len__"):
        return [inputs.texts(f"{name}[{index}]", value) for index, value in enumerate(values)]
    return inputs.texts(name, values)


def _references(values, predictions):
    """One list of references per prediction; beside token lists a reference is a list of tokens too."""
    if predictions and isinstance(predictions[0], list):
        if values is None:
            raise TypeError("`references` is missing. Pass references=[...].")
        lists = [[value] if len(value) and isinstance(value[0], str) else list(value) for value in values]
        return [
            [inputs.texts(f"references[{index}][{number}]", tokens) for number, tokens in enumerate(own)]
            for index, own in enumerate(lists)
        ]
    return inputs.reference_lists(values, len(predictions))


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class TreeAccuracy(evaluate.Metric):
    def _info(self):
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            module_type="metric",
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=[
                datasets.Features({"predictions": text, "references": datasets.Sequence(text)}),
                datasets.Features(
                    {"predictions": datasets.Sequence(text), "references": datasets.Sequence(datasets.Sequence(text))}
                ),
            ],
            reference_urls=["https://aclanthology.org/W00-1401"],
            license="Apache-2.0",
        )

    def compute(self, *, predictions=None, references=None, **kwargs):
        """Checks the input and computes the scores."""
        if predictions is not None or self.writer is None:
            predictions = _texts_or_tokens("predictions", predictions)
            references = _references(references, predictions)
        return super().compute(predictions=predictions, references=references, **kwargs)

    def add_batch(self, *, predictions=None, references=None, **kwargs):
        """Checks and keeps a batch of texts."""
        predictions = _texts_or_tokens("predictions", predictions)
        super().add_batch(predictions=predictions, references=_references(references, predictions), **kwargs)

    def add(self, *, prediction=None, reference=None, **kwargs):
        """Checks and keeps one text."""
        (prediction,) = _texts_or_tokens("prediction", [prediction])
        (references,) = _references([reference], [prediction])
        super().add(prediction=prediction, reference=references, **kwargs)

    def _compute(
        self,
        predictions,
        references,
        trees=None,
        tokenizer=None,
        costs=(4, 3, 3),
        aggregation="mean",
        regressions=False,
        use_aggregator=True,
    ):
        features = mathematics.extract(
            predictions,
            references,
            mathematics.load(self.config_name),
            trees=None if trees is None else list(trees),
            tokenizer=tokenizer or mathematics.words,
            costs=costs,
        )
        if use_aggregator:
            return mathematics.aggregate(features, aggregation, regressions)
        result = per_text.columns([mathematics.score(text, regressions) for text in features])
        result["best_reference"] = [text.reference_index for text in features]
        for operation in ("substitutions", "insertions", "deletions", "moves"):
            result[operation] = [getattr(text.string, operation) for text in features]
        return result

    def explain(self, prediction, reference, **options):
        """The alignment and the treelets behind the scores of one text; print it."""
        return mathematics.explain(prediction, reference, mathematics.load(self.config_name), **options)

    def signature(self, **options):
        """One line that names everything the scores depend on."""
        return mathematics.signature(mathematics.load(self.config_name), **options)
