import { type Random, randomFrom } from '../seed/random.ts';
import { type FaultInput, type FaultRule, faultRule } from './fault-rule.ts';

/** A rule and how often it was looked at and struck. */
export interface ActiveFault {
  readonly id: number;
  readonly rule: FaultRule;
  readonly seen: number;
  readonly hits: number;
}

interface Tracked {
  readonly id: number;
  readonly rule: FaultRule;
  seen: number;
  hits: number;
}

/** The faults that were asked for. Draws come from a seed, so that a run can be had again. */
export class Faults {
  readonly #active: Tracked[] = [];
  readonly #random: Random;
  #nextId = 1;

  constructor(seed: number) {
    this.#random = randomFrom(seed, 'faults');
  }

  /** @returns the rule's id. @throws ZodError for what is no rule */
  add(input: FaultInput): number {
    return this.addUnknown(input);
  }

  /** The same for a rule that came over the wire. */
  addUnknown(input: unknown): number {
    const rule = faultRule.parse(input);
    const id = this.#nextId;
    this.#nextId += 1;
    this.#active.push({ id, rule, seen: 0, hits: 0 });
    return id;
  }

  list(): ActiveFault[] {
    return this.#active.map((fault) => ({ ...fault }));
  }

  remove(id: number): void {
    const index = this.#active.findIndex((fault) => fault.id === id);
    if (index >= 0) this.#active.splice(index, 1);
  }

  clear(): void {
    this.#active.length = 0;
  }

  /** The rules that strike this request, oldest first. */
  strike(operation: string): readonly FaultRule[] {
    if (this.#active.length === 0) return NONE;
    const struck: FaultRule[] = [];
    for (const fault of this.#active) {
      const { rule } = fault;
      if (rule.operation !== '*' && rule.operation !== operation) continue;
      if (rule.times !== undefined && fault.hits >= rule.times) continue;
      fault.seen += 1;
      if (rule.schedule !== undefined && !rule.schedule.includes(fault.seen)) continue;
      if (rule.every !== undefined && fault.seen % rule.every !== 0) continue;
      if (rule.probability !== undefined && this.#random.unit() >= rule.probability) continue;
      fault.hits += 1;
      struck.push(rule);
    }
    return struck;
  }
}

const NONE: readonly FaultRule[] = [];
