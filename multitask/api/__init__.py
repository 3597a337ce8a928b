"""The commands as functions: ``train``, ``check``, ``evaluate``, ``report`` and ``ablate``."""
