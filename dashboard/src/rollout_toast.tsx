import { useQueries, useQueryClient } from '@tanstack/react-query'
import { useEffect } from 'react'
import { Link } from 'react-router'
import type { Shapes } from './api/client.ts'
import { queries } from './api/queries.ts'
import { placeOf, wordOf } from './pages/rollouts/words.tsx'
import { NodeBars } from './shell/node_bars.tsx'
import type { IconName } from './ui/icons.tsx'
import { Toast } from './ui/toast.tsx'
import { type Reversal, Undo } from './undo.tsx'

type Details = Shapes['RolloutDetails']
type Props = {
  rollouts: readonly Shapes['Rollout'][]
  undo: Reversal | undefined
  /** The change has reached every node. */
  onDone: () => void
  onDismiss: () => void
}

/** Follows a change through the waves of each cell, until it reaches every node or is halted. */
export function RolloutToast({ rollouts, undo, onDone, onDismiss }: Props) {
  const reads = useQueries({ queries: rollouts.map(({ id }) => queries.rollout(id)) })
  const known = reads.flatMap(({ data }) => data?.rollout ?? [])
  const nodes = known.flatMap((rollout) => rollout.nodes)
  const having = nodes.filter(({ has_changes }) => has_changes).length
  const isRead = known.length === rollouts.length
  const isDone = isRead && known.every(({ state }) => state === 'released') && having === nodes.length
  useEffect(() => {
    if (isDone) onDone()
  }, [isDone, onDone])
  const client = useQueryClient()
  const states = known.map(({ state, wave }) => `${state} ${wave}`).join()
  useEffect(() => {
    // Data about edges and nodes on the page is older than this.
    if (states) void client.invalidateQueries()
  }, [states, client])
  if (!isRead) return null
  const { tone, icon, title } = said(known, having, nodes.length)
  return (
    <Toast tone={tone} icon={icon} title={title} onDismiss={onDismiss}>
      {reads.some(({ isError }) => isError) && <p>How far it is could not be read just now.</p>}
      <p>
        <NodeBars current={having} behind={nodes.length - having} />
        {known.map((rollout) => (
          <Link key={rollout.id} to={`/rollouts/${rollout.id}`}>
            {known.length > 1 ? `${rollout.cell}: ${wordOf(rollout.state)}, ${placeOf(rollout)}` : 'Show the rollout'}
          </Link>
        ))}
      </p>
      {undo && <Undo reversal={undo} />}
    </Toast>
  )
}

type Said = { tone: 'allowed' | 'warned'; icon: IconName; title: string }

function said(known: readonly Details[], having: number, all: number): Said {
  const halted = known.find(({ state }) => state === 'halted')
  if (halted)
    return { tone: 'warned', icon: 'halt', title: `Saved, but halted: ${halted.reason ?? 'no reason was given'}` }
  const nodes = `${having} of ${all} ${all === 1 ? 'node' : 'nodes'}`
  const isReleased = known.every(({ state }) => state === 'released')
  if (isReleased && having === all) return { tone: 'allowed', icon: 'allowed', title: 'Saved. In force everywhere.' }
  const [first] = known
  if (known.length === 1 && first?.state === 'waiting')
    return { tone: 'warned', icon: 'clock', title: `Saved. On wave 0, ${nodes}. An earlier change goes on first.` }
  const wave = known.length === 1 && first?.state === 'watching' ? `On wave ${first.wave}, ${nodes}.` : `On ${nodes}.`
  return { tone: 'warned', icon: 'rotate', title: `Saved. ${wave}` }
}
