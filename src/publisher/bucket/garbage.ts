import { sealFault, type TrustedKeys } from '../../distribution/signature.ts'
import { inParallel } from '../../kernel/flow/in_parallel.ts'
import type { NatsSink } from './nats_sink.ts'

type Left = ReadonlyMap<string, { signedBy: string; value: string | null } | undefined>

/**
 * True if the entry claims one of our keys but lacks a valid signature. An entry of another database has other keys, and
 * says nothing.
 */
export async function isForged(natsSink: NatsSink, key: string, keys: TrustedKeys): Promise<boolean> {
  const text = await natsSink.textOf(key)
  return text !== undefined && sealFault(text, keys) === 'forged'
}

/**
 * Removes unneeded entries that the control plane did not write, and resolves to their keys. Nodes refuse such entries,
 * so no tombstone is needed.
 */
export async function removeGarbage(natsSink: NatsSink, left: Left, keys: TrustedKeys): Promise<string[]> {
  const [garbage, claimed]: [string[], string[]] = [[], []]
  for (const [key, found] of left)
    if (!found) garbage.push(key)
    else if (found.value !== null && keys.has(found.signedBy)) claimed.push(key)
  await inParallel(claimed, 32, async (key) => {
    if (await isForged(natsSink, key, keys)) garbage.push(key)
  })
  await natsSink.remove(garbage)
  return garbage
}
