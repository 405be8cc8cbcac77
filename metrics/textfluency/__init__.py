"""Linguistic-quality metrics for generated text.

One module per metric, all of one shape: `load(config)` finds the models, `extract(predictions, ...)` runs them,
`score(features)` is the formula.

    slor, wpslor      language-model fluency per word and per word piece
    rouge_lm          fluency and overlap with references in one score
    gleu_parser_svm   parsers as judges, combined by an SVM
    tree_accuracy     string and tree edit accuracies against references

What they stand on:

    language_model    text -> token log-probabilities; lstm: our own network; tokenizers, unigrams
    parsing           sentence -> dependency tree, its probability, Link Grammar's counts
    alignment         two token lists -> edit operations
    sentences         text -> sentences -> words; normalization: tokenised text -> natural text
    weights           where weights are found; inputs: complaints about input; aggregation; statistics
    cli               the command `textfluency`
"""

__version__ = "0.1.0"
