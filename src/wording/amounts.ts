/** Numbers, sizes and times as people read them. */
import { clockText, two } from './dates.ts';

/** `1,234,567`. */
export function count(value: number): string {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+(?!\d))/g, ',');
}

/** `1 message`, `12 messages`; irregular plurals are given. */
export function counted(value: number, noun: string, plural = `${noun}s`): string {
  return `${count(value)} ${Math.round(value) === 1 ? noun : plural}`;
}

const BYTE_UNITS = ['B', 'kB', 'MB', 'GB', 'TB'];

/** Decimal units, as disks are sold: `999 B`, `12.3 MB`, `1.2 GB`. */
export function bytes(value: number): string {
  let [amount, unit] = [value, 0];
  while (amount >= 999.5 && unit < BYTE_UNITS.length - 1) {
    amount /= 1000;
    unit += 1;
  }
  return `${unit === 0 || amount >= 99.95 ? Math.round(amount) : amount.toFixed(1)} ${BYTE_UNITS[unit]}`;
}

/** The two largest units: `0.4 s`, `12 s`, `3 min 20 s`, `5 h 10 min`, `4 d 2 h`. */
export function span(ms: number): string {
  if (ms < 9_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (seconds < 3_570) return pair(Math.floor(seconds / 60), 'min', seconds % 60, 's');
  if (minutes < 24 * 60) return pair(Math.floor(minutes / 60), 'h', minutes % 60, 'min');
  const hours = Math.round(minutes / 60);
  return pair(Math.floor(hours / 24), 'd', hours % 24, 'h');
}

function pair(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`;
}

/** A moment in the user's own time zone: `2026-03-01 09:41`. */
export function localTime(ms: number): string {
  const at = new Date(ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}${clockText(ms)}`;
}
