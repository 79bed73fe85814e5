"""Compiled loops of trees and forests: arrays and scalars in, arrays out."""
