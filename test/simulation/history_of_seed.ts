import { createChance } from './chance.ts'
import { type BrokenPublisher, createControlPlane } from './control_plane.ts'
import { defects, faults, type World } from './faults.ts'
import { createHistory, type History } from './history.ts'
import { createNats } from './nats.ts'
import { type BrokenNode, createNode, type Node } from './node.ts'
import { createPostgres } from './postgres.ts'
import { createScheduler, type Scheduler } from './scheduler.ts'
import { type Keys, keysOf } from './signatures.ts'
import { createAccounts } from './things.ts'

/** What a control breaks, and by which faults it shows soonest. Nothing for the product as it is. */
export type Broken = {
  node?: BrokenNode
  publisher?: BrokenPublisher
  faults?: readonly string[]
  /** Only histories in which accounts move show it. */
  hasMoves?: true
  /** Only those with several waves. */
  hasWaves?: true
  /** Where the search begins: no earlier seed showed it when this was written. */
  from?: number
}
export type Outcome = {
  seed: number
  /** What went wrong; undefined when nothing did. */
  violation: string | undefined
  events: number
  story: string[]
}

class Violation extends Error {}

/** From this seed on, the operator also places accounts in another cell and back. */
export const firstSeedWithMoves = 1_000_000
/** From this one on, the cell has two waves or three, and rollouts are released and halted. No account moves. */
export const firstSeedWithWaves = 2_000_000
const hasMoves = (seed: number): boolean => seed >= firstSeedWithMoves && seed < firstSeedWithWaves

/**
 * How long the world may take to become right again once nothing goes wrong any more: the publisher compares the bucket
 * with the database every ten minutes, which is all that helps against some of what an intruder does.
 */
const recoveryMs = 11 * 60_000

/** Lives through the history of one seed, and says what went wrong in it. */
export async function live(seed: number, { isTraced = false, broken = {} as Broken } = {}): Promise<Outcome> {
  const chance = createChance(seed)
  const scheduler = createScheduler(chance, isTraced)
  let events = 0
  try {
    const kind = {
      hasMoves: hasMoves(seed),
      waves: seed < firstSeedWithWaves ? 1 : seed % 4 === 0 ? 3 : 2,
    }
    const { world, histories, accounts } = createWorld(scheduler, keysOf(seed), broken, kind)
    const step = async (until: number): Promise<boolean> => {
      events++
      const isMore = await scheduler.step(until)
      if (world.violation) throw new Violation(world.violation)
      return isMore
    }
    await trouble(world, accounts, { only: broken.faults, ...kind }, step)
    await recover(world, histories, kind.waves, step)
    return { seed, violation: undefined, events, story: scheduler.story }
  } catch (error) {
    if (!(error instanceof Violation)) throw error
    scheduler.tell('VIOLATION', error.message)
    return { seed, violation: error.message, events, story: scheduler.story }
  } finally {
    scheduler.end()
    // Timers of the test runner, and what is collected only between turns.
    await new Promise((resolve) => setImmediate(resolve))
  }
}

type Watched = World & { violation: string | undefined }

type Kind = { hasMoves: boolean; waves: number }

function createWorld(scheduler: Scheduler, keys: Keys, broken: Broken, kind: Kind) {
  const { waves } = kind
  const { chance } = scheduler
  const nats = createNats(scheduler)
  const postgres = createPostgres(scheduler, keys, kind)
  const histories = Array.from({ length: waves }, (_, wave) => createHistory(postgres, wave))
  const accounts = createAccounts(chance, postgres, chance.between(1, 2))
  const world: Watched = {
    scheduler,
    nats,
    postgres,
    publishers: [],
    nodes: [],
    signer: keys.signer,
    violation: undefined,
  }
  nats.onOlder((fault) => {
    world.violation ??= fault
  })
  const parts = { scheduler, nats, postgres, waves, keys: keys.trusted }
  for (let index = 1; index <= chance.between(1, 2); index++)
    world.publishers.push(createControlPlane({ ...parts, broken: broken.publisher ?? {} }, `publisher ${index}`))
  for (let index = 1; index <= chance.between(1, 2); index++) addNode(`node ${index}`)
  for (let wave = 1; wave < waves; wave++)
    for (let index = 1; index <= chance.between(1, 2); index++) addNode(`node ${index} of wave ${wave}`, wave)

  function addNode(name: string, wave = 0): Node {
    const node = createNode({ ...parts, broken: broken.node ?? {} }, { name, wave }, (reporting) => {
      check(reporting)
      for (const publisher of world.publishers) publisher.hear(reporting)
    })
    node.haproxy.onChange(() => check(node))
    world.nodes.push(node)
    return node
  }
  function check(node: Node): void {
    if (!node.haproxy.isAlive()) return
    const { applied, refused } = node.reported()
    const fault = histories[node.wave]?.fault(node.haproxy.maps(), applied, node.shown(), refused)
    if (fault) world.violation ??= `${node.name}: ${fault}`
  }
  return { world: Object.assign(world, { addNode }), histories, accounts }
}

type Step = (until: number) => Promise<boolean>

/** Accounts change things while one thing after another goes wrong. */
async function trouble(
  world: Watched,
  accounts: ReturnType<typeof createAccounts>,
  { only, hasMoves, waves }: Kind & { only: readonly string[] | undefined },
  step: Step,
): Promise<void> {
  const { scheduler, nats, publishers, nodes } = world
  const { chance } = scheduler
  for (const each of [...publishers, ...nodes]) each.start()
  const names = only ?? Object.keys(faults).filter(() => chance.is(0.3))
  const isCalm = chance.next()
  const end = chance.between(5_000, 40_000)
  const run = async (until: number) => {
    while (await step(until));
  }
  while (scheduler.now() < end) {
    await run(scheduler.now() + chance.next() * chance.pick([20, 300, 3_000]))
    if (chance.is(0.2)) nats.sync()
    if (hasMoves && chance.is(0.15)) accounts.move()
    else if (waves > 1 && chance.is(0.3)) decide(world, waves)
    else if (names.length === 0 || chance.is(0.4 + isCalm / 2)) accounts.change()
    else ({ ...faults, ...defects })[chance.pick(names)]?.(world)
  }
}

/** The operator, or the judge, decides about a rollout. */
function decide({ scheduler: { chance }, postgres }: World, waves: number): void {
  const rollouts = postgres.rollouts()
  if (rollouts.length === 0) return
  const { id, reached } = chance.pick(rollouts)
  if (reached >= 0 && chance.is(0.35)) postgres.halt(id)
  else postgres.release(id, reached < 0 ? 0 : chance.between(reached + 1, waves - 1))
}

/**
 * Nothing goes wrong any more. Every node, and one that is new, must come to serve what its wave may have; and what the
 * database has, once everything is released.
 */
async function recover(
  world: Watched & { addNode: (name: string, wave?: number) => Node },
  histories: readonly History[],
  waves: number,
  step: Step,
): Promise<void> {
  const { scheduler, nats, postgres, publishers, nodes } = world
  scheduler.tell('world', 'nothing goes wrong any more')
  nats.recover()
  postgres.recover()
  world.addNode('new node')
  for (let wave = 1; wave < waves; wave++) world.addNode(`new node of wave ${wave}`, wave)
  for (const each of [...publishers, ...nodes]) {
    each.recover()
    each.start()
  }
  async function comeRight(isEnough = () => false): Promise<void> {
    const end = scheduler.now() + recoveryMs
    let fault: string | undefined
    while (scheduler.now() < end) {
      const until = scheduler.now() + 1_000
      while (await step(until));
      if (isEnough()) return
      fault = faultIn(nodes, postgres.settled(), histories)
      if (!fault) return
    }
    throw new Violation(`not right again after ${recoveryMs / 1_000} s: ${fault}`)
  }
  // What NATS had lost when it changed is known again once everything is released.
  await comeRight(() => waves > 1 && postgres.hasLostPrevious())
  if (waves === 1) return
  const releaseAll = (): void => {
    for (const { id, reached } of postgres.rollouts()) postgres.release(id, reached < 0 ? 0 : waves - 1, true)
  }
  const end = scheduler.now() + 60_000
  while (postgres.rollouts().length > 0) {
    if (scheduler.now() > end) throw new Violation('rollouts cannot be released')
    releaseAll()
    const until = scheduler.now() + 1_000
    while (await step(until));
  }
  // What was not sent yet makes rollouts even now.
  await comeRight(() => {
    releaseAll()
    return false
  })
}

function faultIn(nodes: readonly Node[], settled: number, histories: readonly History[]): string | undefined {
  for (const { name, wave, haproxy, hasFile, agent } of nodes) {
    if (!haproxy.isAlive()) return `${name}: HAProxy does not run`
    const difference = histories[wave]?.difference(haproxy.maps(), hasFile)
    if (difference) return `${name}: ${difference}`
    const applied = agent()?.state().applied ?? 0
    if (applied < settled) return `${name}: has applied ${applied} of ${settled}`
  }
  return undefined
}
