import fc from 'fast-check';
import { expect, test } from 'vitest';
import { LivingCount } from '../../../src/sandbox/folder.ts';

test('counts and finds living positions like a plain list does', () => {
  fc.assert(
    fc.property(
      fc.array(fc.oneof(fc.constant('append' as const), fc.nat()), { maxLength: 300 }),
      (steps) => {
        const counted = new LivingCount();
        const plain: boolean[] = [];
        for (const step of steps) {
          if (step === 'append') {
            counted.append();
            plain.push(true);
            continue;
          }
          if (plain.length === 0) continue;
          const position = step % plain.length;
          if (plain[position] === false) continue;
          counted.kill(position);
          plain[position] = false;
        }
        const living = plain.flatMap((alive, position) => (alive ? [position] : []));
        expect(counted.living).toBe(living.length);
        expect(living.map((_, rank) => counted.at(rank))).toEqual(living);
        expect(counted.at(living.length)).toBe(-1);
        for (let position = 0; position <= plain.length; position += 1) {
          expect(counted.before(position)).toBe(living.filter((at) => at < position).length);
        }
      },
    ),
  );
});
