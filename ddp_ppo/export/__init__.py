"""Policies as files that act elsewhere, and how near they are to the policy in training.

Imports runs, policies and envs. Begin reading at `export.py`.
"""
