"""The page of slor alone."""

from textfluency import page

if __name__ == "__main__":
    page.build(["slor"]).launch()
