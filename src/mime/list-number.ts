/**
 * Returns the number of an item as its list shows it.
 *
 * @param type the attribute of the list: `a`, `A`, `i` and `I` stand for letters and Roman numbers
 */
export function listNumber(number: number, type: string | undefined): string {
  switch (type) {
    case 'a':
      return letters(number);
    case 'A':
      return letters(number).toUpperCase();
    case 'i':
      return roman(number).toLowerCase();
    case 'I':
      return roman(number);
    default:
      return String(number);
  }
}

/** a to z, aa, ab, and so on; digits for what no letters stand for. */
function letters(number: number): string {
  if (!Number.isSafeInteger(number) || number < 1) return String(number);
  let text = '';
  for (let left = number; left > 0; left = Math.floor((left - 1) / 26))
    text = String.fromCharCode(0x61 + ((left - 1) % 26)) + text;
  return text;
}

const ROMAN = [
  ...([
    [1000, 'M'],
    [900, 'CM'],
    [500, 'D'],
    [400, 'CD'],
    [100, 'C'],
    [90, 'XC'],
  ] as const),
  ...([
    [50, 'L'],
    [40, 'XL'],
    [10, 'X'],
    [9, 'IX'],
    [5, 'V'],
    [4, 'IV'],
    [1, 'I'],
  ] as const),
] as const;

/** Digits for what has no Roman number. */
function roman(number: number): string {
  if (!Number.isInteger(number) || number < 1 || number > 3999) return String(number);
  let text = '';
  let left = number;
  for (const [value, sign] of ROMAN) {
    const times = Math.floor(left / value);
    text += sign.repeat(times);
    left -= times * value;
  }
  return text;
}
