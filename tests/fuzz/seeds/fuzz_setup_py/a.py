from setuptools import setup
R = ["torch"]
setup(name="x", install_requires=R, python_requires=">=3")
