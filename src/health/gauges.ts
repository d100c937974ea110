import { Gauge, type Registry } from 'prom-client';

/** Adds a gauge with a value for each of several; what has none is absent. */
export function labelled<Label extends string>(
  registry: Registry,
  name: string,
  help: string,
  labelNames: readonly Label[],
  values: () => readonly (readonly [Readonly<Record<Label, string>>, number | null])[],
): void {
  new Gauge({
    name: `mailkeep_${name}`,
    help,
    labelNames,
    registers: [registry],
    collect() {
      this.reset();
      for (const [labels, value] of values()) if (value !== null) this.set(labels, value);
    },
  });
}
