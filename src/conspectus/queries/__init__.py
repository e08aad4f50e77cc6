"""The class Q: queries and workloads as values, their sensitivities, their counts and their language."""
