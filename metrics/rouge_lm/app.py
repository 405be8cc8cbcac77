"""The page of rouge_lm alone."""

from textfluency import page

if __name__ == "__main__":
    page.build(["rouge_lm"]).launch()
