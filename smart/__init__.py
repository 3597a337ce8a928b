"""SMART: smoothness-inducing adversarial regularization and the Bregman proximal point.

Jiang et al. 2020, "SMART: Robust and Efficient Fine-Tuning for Pre-trained Natural Language Models
through Principled Regularized Optimization" (ACL), sections 3.1 and 3.2. The files:
``divergence`` (l_s), ``adversarial`` (the ascent) and ``teacher`` (the momentum teacher).
"""
