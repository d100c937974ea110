import { nameOfTarget } from './copies.ts';
import { type ConfigProblem, pathText, valueAt } from './problems.ts';

/**
 * Returns the problems that no single field of a copy shows: two times or none, a lock in a folder, and two copies to
 * one place.
 */
export function copyProblems(raw: unknown): ConfigProblem[] {
  const copies = valueAt(raw, ['copies']);
  const all: readonly unknown[] = Array.isArray(copies) ? copies : [];
  const targets = all.map((copy) => {
    const to = valueAt(copy, ['to']);
    return typeof to === 'string' ? nameOfTarget(to, '/') : undefined;
  });
  return all.flatMap((copy, i) => {
    if (typeof copy !== 'object' || copy === null) return [];
    const has = (field: string): boolean => valueAt(copy, [field]) !== undefined;
    const problems: ConfigProblem[] = [];
    if (has('every') && has('schedule')) {
      problems.push({
        path: pathText(['copies', i, 'schedule']),
        found: 'both every and schedule',
        expected: 'one of them',
      });
    } else if (!has('every') && !has('schedule')) {
      problems.push({
        path: pathText(['copies', i]),
        found: 'neither every nor schedule',
        expected: 'when to copy: "every": "1h", or a cron expression in "schedule"',
      });
    }
    const lockDays = valueAt(copy, ['lockDays']);
    if (typeof lockDays === 'number' && targets[i]?.startsWith('s3://') === false) {
      problems.push({
        path: pathText(['copies', i, 'lockDays']),
        found: 'a lock in a folder',
        expected: 'null: only buckets lock',
      });
    }
    const first = targets[i] === undefined ? -1 : targets.indexOf(targets[i]);
    if (first >= 0 && first < i) {
      problems.push({
        path: pathText(['copies', i, 'to']),
        found: 'the same place',
        expected: `another place than ${pathText(['copies', first, 'to'])}`,
      });
    }
    return problems;
  });
}
