import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const read = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');

test.each(['docs/fleet-alerts.example.yaml', 'docs/fleet-dashboard.json'])(
  'the metrics in %s are those of a worker',
  (file) => {
    const metrics = [...read(file).matchAll(/\bmailkeep_(?:fleet_)?(\w+)/g)];
    expect(metrics.length).toBeGreaterThan(5);
    // It has its own, and a list of those that it passes on of its daemons.
    const source = read('src/fleet/worker-health.ts');
    const unknown = metrics.filter(([, name]) => !new RegExp(`(?:\\b|_)${name}\\b`).test(source));
    expect(unknown.map(([metric]) => metric)).toEqual([]);
  },
);
