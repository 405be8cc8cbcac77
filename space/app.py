"""The Space: every metric on one page."""

from textfluency import installation, page

if __name__ == "__main__":
    page.build([folder.name for folder in installation.metric_folders()]).launch()
