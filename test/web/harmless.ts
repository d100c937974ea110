import { Parser } from 'htmlparser2';
import { expect } from 'vitest';

/** What our own pages are made of. */
const ELEMENTS = new Set(
  (
    'html head meta title link body a div header footer main nav section search form input button label svg path ' +
    'span b bdi p h1 h2 ul ol li time mark u strong details summary article table tbody tr th td pre iframe'
  ).split(' '),
);

/** A page on which nothing that a sender wrote is markup. */
export function expectHarmless(html: string): void {
  expect(html).toMatch(/^<!doctype html><html lang="en">/);
  const wrong: string[] = [];
  const parser = new Parser({
    onopentag(name, attributes) {
      if (!ELEMENTS.has(name)) wrong.push(name);
      for (const [attribute, value] of Object.entries(attributes)) {
        if (/^on|^style$|^srcdoc$/.test(attribute)) wrong.push(`${name} ${attribute}`);
        if (/^(?:href|src|action)$/.test(attribute) && !/^(?:\/(?!\/)|#)/.test(value))
          wrong.push(`${name} ${attribute}=${value}`);
      }
      if (name === 'script') wrong.push('script');
    },
  });
  parser.end(html);
  expect(wrong).toEqual([]);
}
