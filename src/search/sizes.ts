const SIZE = /^(\d+(?:\.\d+)?)(b|[kmg]b?|[kmg]ib?)?$/i;
const UNIT: Readonly<Record<string, number>> = {
  k: 1_000,
  m: 1_000_000,
  g: 1_000_000_000,
  ki: 1_024,
  mi: 1_048_576,
  gi: 1_073_741_824,
};

/** Bytes of `10`, `10k`, `1.5MB` (decimal) or `10Ki`, `2MiB` (binary); undefined for anything else. */
export function readSize(text: string): number | undefined {
  const match = SIZE.exec(text);
  if (match === null) return undefined;
  const unit = (match[2] ?? '').toLowerCase().replace(/b$/, '');
  const bytes = Math.round(Number(match[1]) * (UNIT[unit] ?? 1));
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}
