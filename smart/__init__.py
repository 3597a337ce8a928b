"""SMART: smoothness-inducing adversarial regularization and the Bregman proximal point.

Jiang et al. 2020, "SMART: Robust and Efficient Fine-Tuning for Pre-trained Natural Language Models
through Principled Regularized Optimization" (ACL), sections 3.1 and 3.2. One file a part:
``divergence`` (l_s), ``adversarial`` (the ascent), ``teacher`` (the momentum teacher).
"""
