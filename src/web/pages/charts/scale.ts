/** The upper end of an axis and its marks, from 0. */
export interface Axis {
  readonly top: number;
  readonly marks: readonly number[];
}

const STEPS = [1, 2, 2.5, 5, 10];

/**
 * Returns an axis from 0 to a round number that is not below `most`.
 *
 * @param parts marks above 0 at most
 * @param whole whether marks are whole numbers
 */
export function axisTo(most: number, parts = 4, whole = true): Axis {
  if (!(most > 0)) return { top: 1, marks: [0, 1] };
  const rough = most / parts;
  const power = 10 ** Math.floor(Math.log10(rough));
  const fits = STEPS.map((step) => step * power).find((step) => step >= rough * (1 - 1e-9));
  const least = fits ?? 10 * power;
  const step = whole ? Math.max(1, Math.ceil(least)) : least;
  const count = Math.ceil((most / step) * (1 - 1e-9));
  return { top: count * step, marks: Array.from({ length: count + 1 }, (_, at) => at * step) };
}

const UNITS = ['', 'k', 'M', 'G', 'T'];

/** Returns a number of at most four characters: `950`, `25k`, `1.2M`. */
export function shortNumber(value: number): string {
  let [amount, unit] = [Math.abs(value), 0];
  while (amount >= 999.5 && unit < UNITS.length - 1) {
    amount /= 1000;
    unit += 1;
  }
  const text =
    amount >= 10 || Number.isInteger(amount) ? String(Math.round(amount)) : tenths(amount);
  return `${value < 0 ? '−' : ''}${text}${UNITS[unit]}`;
}

function tenths(amount: number): string {
  return amount.toFixed(amount < 0.1 ? 2 : 1).replace(/\.0$/, '');
}

/** Returns a share of the whole as SVG takes it, such as `12.5%`. */
export function percent(share: number): string {
  return `${Number((Math.min(1, Math.max(0, share)) * 100).toFixed(3))}%`;
}

/** Returns which of so many bars have a label below: at most `most`, at even distances, the last one among them. */
export function labelled(count: number, most: number): number[] {
  if (count <= 0) return [];
  const step = Math.max(1, Math.ceil(count / most));
  const found: number[] = [];
  for (let at = count - 1; at >= 0; at -= step) found.unshift(at);
  return found;
}
