import type { RecordKey } from '../../src/distribution/records.ts'
import type { Uuid } from '../../src/kernel/ids.ts'
import type { HeldKey, Joining, Previous } from '../../src/publisher/waves/rollout.ts'
import type { Thing, Writes } from './postgres.ts'
import type { State } from './state.ts'

export type Rollout = {
  id: number
  accountId: Uuid
  reached: number
  openUntil: number
  previous: Map<RecordKey, Previous>
}

/** What a decision sends, and to which waves. */
type Sent = { accountId: Uuid; keys: Iterable<RecordKey>; waves: readonly [from: number, to: number] }

/**
 * The tables of rollouts, and beside them, from the changes alone, what each wave may have: the state of an account after
 * the last change that was released to the wave, and never a mixture.
 */
export function createRollouts(
  state: () => State,
  waves: number,
  onCommit: (wave: number, generation: number, writes: Writes) => void,
) {
  let lastId = 0
  /** NATS had lost what these were when they changed: a wave may keep what it has of them. */
  const lost = new Set<RecordKey>()
  const byId = () => [...state().rollouts].sort((a, b) => a.id - b.id)
  const of = (accountId: Uuid) => byId().filter((rollout) => rollout.accountId === accountId)
  const pastOf = (accountId: Uuid) => state().past.get(accountId) ?? []
  const isHalted = (accountId: Uuid) => of(accountId).some(({ reached }) => reached < 0)

  /** Everything that the account had after a generation. */
  function thingsAt(accountId: Uuid, generation: number): ReadonlyMap<RecordKey, Thing> {
    const before = pastOf(accountId).filter((past) => past.generation <= generation)
    return before.at(-1)?.things ?? new Map()
  }
  const allowedIn = (wave: number, accountId: Uuid): number => state().allowed[wave]?.get(accountId) ?? 0

  /** From now on the wave has the account as of another generation. */
  function moveTo(wave: number, accountId: Uuid, upTo: number, told: number, except: ReadonlySet<RecordKey>): void {
    const keys = new Set(pastOf(accountId).flatMap(({ things }) => [...things.keys()]))
    const things = thingsAt(accountId, upTo)
    state().allowed[wave]?.set(accountId, upTo)
    const writes = [...keys].filter((key) => !except.has(key)).map((key) => [key, things.get(key) ?? null] as const)
    onCommit(wave, told, new Map(writes))
  }
  /** Those of which a wave keeps what it has, because NATS had lost them when they changed. */
  const lostIn = (rollouts: readonly Rollout[]): Set<RecordKey> =>
    new Set(rollouts.flatMap(({ previous }) => [...previous].flatMap(([key, was]) => (was === 'unknown' ? key : []))))

  function find(id: number): Rollout | undefined {
    const found = state().rollouts.find((rollout) => rollout.id === id)
    return found && of(found.accountId)[0] === found ? found : undefined
  }

  return {
    /** A change was committed. */
    changed(accountId: Uuid, generation: number, writes: Writes): void {
      const things = new Map([...state().things].filter(([, thing]) => thing.accountId === accountId))
      state().past.set(accountId, [...pastOf(accountId), { generation, things }])
      if (!isHalted(accountId)) onCommit(0, generation, writes)
    },
    join(joining: readonly Joining[], previous: ReadonlyMap<RecordKey, Previous>): void {
      for (const { rollout: id, accountId, openUntil, keys } of joining) {
        let rollout = state().rollouts.find((each) => each.id === id)
        if (!rollout) {
          rollout = { id: ++lastId, accountId, reached: 0, openUntil, previous: new Map() }
          state().rollouts.push(rollout)
        }
        rollout.openUntil = Math.max(rollout.openUntil, openUntil)
        for (const key of keys) {
          rollout.previous.set(key, previous.get(key) as Previous)
          if (previous.get(key) === 'unknown') lost.add(key)
        }
      }
    },
    heldIn(wave: number, keys: readonly RecordKey[]): Map<RecordKey, Previous> {
      const held = new Map<RecordKey, Previous>()
      for (const { reached, previous } of byId())
        for (const [key, was] of previous)
          if (reached < wave && keys.includes(key) && !held.has(key)) held.set(key, was)
      return held
    },
    heldKeys(wave: number): HeldKey[] {
      const held = new Map<RecordKey, HeldKey>()
      for (const { reached, accountId, previous } of byId())
        for (const [key, was] of previous)
          if (reached < wave && !held.has(key))
            held.set(key, { key, accountId, isGone: was !== 'unknown' && was.value === null })
      return [...held.values()]
    },
    first: (): Rollout[] => byId().filter((rollout) => of(rollout.accountId)[0] === rollout),
    hasLost: (wave = waves - 1): boolean => lostIn(byId().filter(({ reached }) => reached < wave)).size > 0,
    lost,
    /** To this wave and all before it. After it was halted, to the first one only. */
    release(id: number, reached: number, generation: number): Sent | undefined {
      const rollout = find(id)
      if (!rollout || reached <= rollout.reached || (rollout.reached < 0 && reached > 0)) return undefined
      const { accountId, openUntil, previous } = rollout
      // What the bucket of the first wave does not have yet might be compiled again, with what comes meanwhile.
      if (reached > 0 && (state().positions[0]?.cursor ?? 0) < openUntil) return undefined
      const from = rollout.reached + 1
      rollout.reached = reached
      // Until the first wave has it again, its bucket does not say what was before a further change.
      if (reached === 0) rollout.openUntil = Math.max(openUntil, generation)
      if (reached === waves - 1) state().rollouts = state().rollouts.filter((each) => each !== rollout)
      const others = lostIn(of(accountId).filter((each) => each !== rollout))
      for (let wave = from; wave <= reached; wave++) {
        moveTo(wave, accountId, openUntil, generation, wave === 0 ? new Set() : others)
        if (wave > 0) continue
        // Those that came while it was halted, and are in no rollout yet.
        for (const late of pastOf(accountId).filter((past) => past.generation > openUntil))
          moveTo(0, accountId, late.generation, Math.max(late.generation, generation), new Set())
      }
      return { accountId, keys: previous.keys(), waves: [from, reached] }
    },
    halt(id: number, generation: number): Sent | undefined {
      const rollout = find(id)
      if (!rollout || rollout.reached < 0) return undefined
      const { accountId, reached, previous } = rollout
      for (const next of of(accountId)) {
        if (next === rollout) continue
        for (const [key, was] of next.previous) if (!previous.has(key)) previous.set(key, was)
        rollout.openUntil = Math.max(rollout.openUntil, next.openUntil)
        state().rollouts = state().rollouts.filter((each) => each !== next)
      }
      rollout.reached = -1
      const upTo = allowedIn(waves - 1, accountId)
      for (let wave = 0; wave <= reached; wave++) moveTo(wave, accountId, upTo, generation, lostIn([rollout]))
      return { accountId, keys: previous.keys(), waves: [0, reached] }
    },
    thingsIn(wave: number): Map<RecordKey, Thing> {
      const things = new Map<RecordKey, Thing>()
      for (const accountId of state().past.keys()) {
        const upTo = wave === 0 && !isHalted(accountId) ? Number.POSITIVE_INFINITY : allowedIn(wave, accountId)
        for (const [key, thing] of thingsAt(accountId, upTo)) things.set(key, thing)
      }
      return things
    },
  }
}

export const copyOf = (state: State): State => ({
  ...state,
  things: new Map(state.things),
  outbox: [...state.outbox],
  positions: state.positions.map((position) => ({ ...position })),
  rollouts: state.rollouts.map((rollout) => ({ ...rollout, previous: new Map(rollout.previous) })),
  past: new Map([...state.past].map(([account, past]) => [account, [...past]])),
  allowed: state.allowed.map((allowed) => new Map(allowed)),
  withheld: new Map(state.withheld),
  elsewhere: new Set(state.elsewhere),
})
