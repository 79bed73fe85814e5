"""The labelling page's server: a JSON API over a campaign, for people in browsers. Needs the extra ``server``."""
