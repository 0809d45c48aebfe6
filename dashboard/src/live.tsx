import { useQuery, useQueryClient } from '@tanstack/react-query'
import { lazy, Suspense, useCallback, useEffect, useState } from 'react'
import { $api, type Shapes } from './api/client.ts'
import { type Change, useNewestChange } from './api/generation.ts'
import { queries } from './api/queries.ts'
import { NodeBars } from './shell/node_bars.tsx'
import { Toast } from './ui/toast.tsx'
import { type Reversal, Undo, useUndo } from './undo.tsx'

// Needed only if nodes get changes in waves.
const RolloutToast = lazy(async () => ({ default: (await import('./rollout_toast.tsx')).RolloutToast }))

/** How long to show a change. Edges usually apply it within a second. */
const newsMs = 20_000
/** Stays visible after completion for long enough to notice a mistake. */
const shownMs = 10_000
const count = new Intl.NumberFormat('en')

/** After every save, on every page: how many edge nodes have applied the change, and why others have not. */
export function Live() {
  const change = useNewestChange()
  return (
    <div className="live-region" aria-live="polite">
      {change?.generation === undefined ? (
        change && <SavedChange key={change.operationId} change={change} />
      ) : (
        <LiveChange key={change.operationId} change={{ ...change, generation: change.generation }} />
      )}
    </div>
  )
}

/** The change does not concern edge nodes, so it is shown only if it can be undone. */
function SavedChange({ change }: { change: Change }) {
  const [isOpen, setOpen] = useState(Date.now() - change.at < newsMs)
  const undo = useUndo(change.operationId, isOpen)
  useEffect(() => {
    const timer = setTimeout(() => setOpen(false), shownMs)
    return () => clearTimeout(timer)
  }, [])
  if (!isOpen || !undo) return null
  return (
    <Toast tone="allowed" icon="allowed" title={said('Saved.', undo)} onDismiss={() => setOpen(false)}>
      <Undo reversal={undo} />
    </Toast>
  )
}

function LiveChange({ change }: { change: Change & { generation: number } }) {
  const [isOpen, setOpen] = useState(Date.now() - change.at < newsMs)
  const [slow, setSlow] = useState(false)
  const { data } = $api.useQuery(
    'get',
    '/generations/{generation}',
    { params: { path: { generation: String(change.generation) } } },
    {
      enabled: isOpen,
      refetchInterval: ({ state: { data } }) =>
        // The toast polls the rollouts itself; only another cell may start a further one.
        (data?.rollouts.length ? !isOnItsWay(data) : isEverywhere(data))
          ? false
          : slow || isOnItsWay(data)
            ? 5_000
            : 400,
    },
  )
  useEffect(() => {
    const timer = setTimeout(() => setSlow(true), 10_000)
    return () => clearTimeout(timer)
  }, [])
  const undo = useUndo(change.operationId, isOpen)
  const rollouts = data?.rollouts ?? []
  const [isReleased, setReleased] = useState(false)
  const onReleased = useCallback(() => setReleased(true), [])
  const done = rollouts.length > 0 ? isReleased : isEverywhere(data)
  const applied = data?.applied_nodes
  const client = useQueryClient()
  useEffect(() => {
    // Refreshes the nodes' line in the menu, which would otherwise contradict this one.
    if (done || applied) void client.invalidateQueries({ queryKey: queries.nodes().queryKey })
  }, [done, applied, client])
  useEffect(() => {
    if (!done) return
    const timer = setTimeout(() => setOpen(false), shownMs)
    return () => clearTimeout(timer)
  }, [done])
  // Missing live nodes matter only if the installation has nodes.
  const nodes = useQuery({ ...queries.nodes(), enabled: isOpen && data?.live_nodes === 0 })
  const isWithoutEdges = data?.live_nodes === 0 && !nodes.isError && !nodes.data?.edge_nodes.length
  if (!isOpen || !data) return null
  if (rollouts.length > 0)
    return (
      <Suspense>
        <RolloutToast rollouts={rollouts} undo={undo} onDone={onReleased} onDismiss={() => setOpen(false)} />
      </Suspense>
    )
  if (isWithoutEdges) return <SavedChange change={change} />
  const isLive = done && data.live_nodes > 0
  const tone = isLive ? 'allowed' : data.refusals.length || data.withheld.length || slow ? 'refused' : 'warned'
  return (
    <Toast
      tone={tone}
      icon={isLive || tone === 'refused' ? tone : 'rotate'}
      title={said(sentenceOf(data), undo)}
      onDismiss={() => setOpen(false)}
    >
      <Reasons generation={data} slow={slow} />
      <p>
        <NodeBars current={data.applied_nodes} behind={data.live_nodes - data.applied_nodes} />
        Generation {count.format(data.generation)}
      </p>
      {undo && <Undo reversal={undo} />}
    </Toast>
  )
}

/** Says 'Undone' instead of 'Saved' for an undo. */
const said = (sentence: string, undo: Reversal | undefined): string =>
  undo?.isRedo ? sentence.replace(/^Saved\./, 'Undone.') : sentence

export const isEverywhere = (generation: Shapes['Generation'] | undefined): boolean =>
  generation !== undefined && generation.applied_nodes === generation.live_nodes && generation.refusals.length === 0

const isOnItsWay = (generation: Shapes['Generation'] | undefined): boolean =>
  generation?.rollouts.some(({ state }) => state !== 'released' && state !== 'halted') ?? false

export function sentenceOf({ live_nodes, applied_nodes, behind, refusals }: Shapes['Generation']): string {
  if (live_nodes === 0) return 'Saved. No edge node is live to apply it.'
  const nodes = `${applied_nodes} of ${live_nodes} ${live_nodes === 1 ? 'node' : 'nodes'}`
  // A node that rejected the change will not apply it later.
  const isOver = behind.every((name) => refusals.some(({ node }) => node === name))
  return isOver ? `Saved. Live on ${nodes}.` : `Saved. Live on ${nodes} so far…`
}

/** Why some nodes have not applied it: it cannot be sent, they rejected it, or they are behind. */
export function Reasons({ generation, slow }: { generation: Shapes['Generation']; slow: boolean }) {
  const refusedBy = new Set(generation.refusals.map(({ node }) => node))
  const late = generation.behind.filter((node) => !refusedBy.has(node))
  return (
    <>
      {generation.refusals.map(({ node, key, reason }) => (
        <p key={`${node} ${key}`}>
          <span className="mono">{node}</span> rejected it and keeps its previous state: {reason}
        </p>
      ))}
      {generation.withheld.map(({ key, reason }) => (
        <p key={key}>
          <span className="mono">{key}</span> cannot be sent to edge nodes, which keep their previous state: {reason}
        </p>
      ))}
      {slow && generation.withheld.length === 0 && late.length > 0 && (
        <p>
          Not applied yet on <span className="mono">{late.join(', ')}</span>. A node that loses NATS keeps enforcing its
          last known state and catches up later. Run <span className="mono">gatehouse edge status</span> on it.
        </p>
      )}
    </>
  )
}
