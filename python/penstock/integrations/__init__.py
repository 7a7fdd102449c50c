"""Penstock within programs that people train with: one module for each."""
