import fc from 'fast-check';
import { expect, test } from 'vitest';
import { LatestTask } from '../../src/web/client/viewer.ts';

/** Questions that are answered when the test says so. */
class Answers {
  readonly latest = new LatestTask();
  readonly shown: number[] = [];
  readonly asked: number[] = [];
  most = 0;
  #open: { answer: () => void } | undefined;
  #count = 0;

  ask(question: number): void {
    this.latest.run(async (signal) => {
      this.asked.push(question);
      this.#count += 1;
      this.most = Math.max(this.most, this.#count);
      await new Promise<void>((resolve) => {
        this.#open = { answer: resolve };
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
      this.#count -= 1;
      if (!signal.aborted) this.shown.push(question);
    });
  }

  async answer(): Promise<void> {
    const open = this.#open;
    this.#open = undefined;
    open?.answer();
    await settled();
  }
}

/** Lets everything run that waits for nothing but its turn. */
const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

test('the latest question waits for the one under way, and those between are never asked', async () => {
  const answers = new Answers();
  for (const question of [1, 2, 3, 4]) answers.ask(question);
  expect(answers.latest.isWaiting).toBe(true);
  await answers.answer();
  expect(answers.latest.isWaiting).toBe(false);
  await answers.answer();
  expect(answers.asked).toEqual([1, 4]);
  expect(answers.shown).toEqual([1, 4]);
});

test('what is stopped shows nothing, and the next question is asked at once', async () => {
  const answers = new Answers();
  answers.ask(1);
  answers.ask(2);
  answers.latest.stop();
  answers.ask(3);
  expect(answers.asked).toEqual([1, 3]);
  await settled();
  await answers.answer();
  expect(answers.shown).toEqual([3]);
});

test('in any order of keys and answers, one is under way, and answers come in the order of keys', async () => {
  const step = fc.constantFrom('key', 'answer', 'stop');
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
      const answers = new Answers();
      let question = 0;
      let last = 0;
      for (const now of steps) {
        if (now === 'key') {
          question += 1;
          last = question;
          answers.ask(question);
        } else if (now === 'answer') await answers.answer();
        else {
          answers.latest.stop();
          last = 0;
          await settled();
        }
      }
      await answers.answer();
      await answers.answer();
      expect(answers.most).toBeLessThanOrEqual(1);
      expect(answers.shown).toEqual(answers.shown.toSorted((a, b) => a - b));
      if (last > 0) expect(answers.shown.at(-1)).toBe(last);
    }),
  );
});
