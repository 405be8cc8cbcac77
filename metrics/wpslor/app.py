"""The page of wpslor alone."""

from textfluency import page

if __name__ == "__main__":
    page.build(["wpslor"]).launch()
