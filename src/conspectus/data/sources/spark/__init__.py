"""Frames of Spark."""
