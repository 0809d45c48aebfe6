import type { Applied } from '../../clients/typescript/src/applied.ts'
import { Failure, usageFailure } from './exits.ts'

/** One by default: a change that no node has applied is in force nowhere. */
export function readMinNodes(text: string | undefined, isWaiting: boolean): number {
  if (text === undefined) return 1
  if (!isWaiting) throw usageFailure('--min-nodes needs --wait applied or released')
  if (!/^\d{1,6}$/.test(text)) throw usageFailure(`--min-nodes must be a number of edge nodes, not '${text}'`)
  return Number(text)
}

/** The message if a change is not in force on every live edge node, or on fewer than `minNodes`; otherwise undefined. */
export function appliedFault({ applied, live, behind, generation }: Applied, minNodes: number): Failure | undefined {
  const again = `Check again with: gatehouse generations get ${generation}`
  if (applied < live)
    return new Failure(
      'notApplied',
      `The change was made, but only ${applied}/${live} live edge nodes have applied it. Behind: ${behind.join(', ')}`,
      [again],
    )
  if (live >= minNodes) return undefined
  return new Failure(
    'tooFewNodes',
    live === 0
      ? 'The change was made, but no edge node is live, so it is not known to be in force anywhere.'
      : `The change was made, but only ${live} edge ${live === 1 ? 'node is' : 'nodes are'} live, and --min-nodes is ${minNodes}.`,
    [
      "'gatehouse status' shows the nodes. Nodes apply the change when they are back.",
      again,
      ...(live === 0 ? ['Use --min-nodes 0 if this installation has no edge nodes.'] : []),
    ],
  )
}
