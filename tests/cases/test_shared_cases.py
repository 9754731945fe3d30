"""Stands for the cases in ../shared/cases, which conftest.py collects in its place."""
