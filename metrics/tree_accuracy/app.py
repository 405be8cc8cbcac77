"""The page of tree_accuracy alone."""

from textfluency import page

if __name__ == "__main__":
    page.build(["tree_accuracy"]).launch()
