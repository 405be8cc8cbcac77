"""The page of gleu_parser_svm alone."""

from textfluency import page

if __name__ == "__main__":
    page.build(["gleu_parser_svm"]).launch()
