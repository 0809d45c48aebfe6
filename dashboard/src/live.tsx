import { useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import type { Shapes } from './api/client.ts'
import { type Change, useNewestChange } from './api/generation.ts'
import { queries } from './api/queries.ts'
import { Button } from './ui/button.tsx'
import { Icon } from './ui/icons.tsx'

/** How long after a change it is news. Edges apply one within a second or so. */
const newsMs = 20_000

/** After every save, on every page: on how many edge nodes it is in force, and why not when not. */
export function Live() {
  const change = useNewestChange()
  return (
    <div className="live-region" aria-live="polite">
      {change && <LiveChange key={change.generation} change={change} />}
    </div>
  )
}

function LiveChange({ change }: { change: Change }) {
  const [isOpen, setOpen] = useState(Date.now() - change.at < newsMs)
  const [slow, setSlow] = useState(false)
  const { data } = useQuery({
    ...queries.generation(change.generation),
    enabled: isOpen,
    refetchInterval: ({ state: { data } }) => (isEverywhere(data) ? false : slow ? 5_000 : 400),
  })
  useEffect(() => {
    const timer = setTimeout(() => setSlow(true), 10_000)
    return () => clearTimeout(timer)
  }, [])
  const done = isEverywhere(data)
  useEffect(() => {
    if (!done) return
    const timer = setTimeout(() => setOpen(false), 8_000)
    return () => clearTimeout(timer)
  }, [done])
  // Nobody alive is news where there are nodes, and none where there never were any.
  const nodes = useQuery({ ...queries.nodes(), enabled: isOpen && data?.live_nodes === 0 })
  const isWithoutEdges = data?.live_nodes === 0 && !nodes.isError && !nodes.data?.edge_nodes.length
  if (!isOpen || !data || isWithoutEdges) return null
  const isLive = done && data.live_nodes > 0
  const tone = isLive ? 'allowed' : data.refusals.length || slow ? 'refused' : 'warned'
  return (
    <div className={`live note ${tone}`}>
      <Icon name={tone} />
      <div>
        <p className="strong">{sentenceOf(data)}</p>
        <Reasons generation={data} slow={slow} />
        <p className="fine">Generation {data.generation}</p>
      </div>
      <Button kind="quiet" icon="close" iconOnly onPress={() => setOpen(false)}>
        Dismiss
      </Button>
    </div>
  )
}

export const isEverywhere = (generation: Shapes['Generation'] | undefined): boolean =>
  generation !== undefined && generation.applied_nodes === generation.live_nodes && generation.refusals.length === 0

export function sentenceOf({ live_nodes, applied_nodes }: Shapes['Generation']): string {
  if (live_nodes === 0) return 'Saved. No edge node is alive that could apply it.'
  return applied_nodes === live_nodes
    ? `Saved. Live on ${applied_nodes} of ${live_nodes} nodes.`
    : `Saved. Live on ${applied_nodes} of ${live_nodes} nodes so far…`
}

/** Why it is not live everywhere: refused there, or that node has not got so far. */
export function Reasons({ generation, slow }: { generation: Shapes['Generation']; slow: boolean }) {
  const refusedBy = new Set(generation.refusals.map(({ node }) => node))
  const late = generation.behind.filter((node) => !refusedBy.has(node))
  return (
    <>
      {generation.refusals.map(({ node, key, reason }) => (
        <p key={`${node} ${key}`}>
          <span className="mono">{node}</span> refused it and keeps what it had: {reason}
        </p>
      ))}
      {slow && late.length > 0 && (
        <p>
          Not there yet: <span className="mono">{late.join(', ')}</span>. A node that has lost NATS serves on with what
          it had and catches up when it is back; <span className="mono">gatehouse edge status</span> on it says more.
        </p>
      )}
    </>
  )
}
