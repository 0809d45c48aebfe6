import { Link } from 'react-router'
import { $api } from '../../api/client.ts'
import { Badge } from '../../ui/badge.tsx'
import { Section } from '../../ui/section.tsx'
import { type Health, State } from '../../ui/state.tsx'
import { useNow } from './answer.tsx'
import type { Details } from './words.tsx'

type Node = Details['nodes'][number]

export function WavesAndNodes({ rollout }: { rollout: Details }) {
  const { waves, nodes, cell } = rollout
  const last = Math.max(waves - 1, ...nodes.map(({ wave }) => wave))
  return (
    <Section title="Waves and nodes" note={`of cell ${cell}`}>
      <ol className="waves">
        {Array.from({ length: last + 1 }, (_, wave) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a wave is its place.
          <Wave key={wave} wave={wave} rollout={rollout} />
        ))}
      </ol>
    </Section>
  )
}

/** `stopped` and `now` have a prominent border. */
function lookOf({ state, wave: reached }: Details, wave: number, nodes: readonly Node[]): string {
  if (state === 'halted') return nodes.some(({ reason, has_previous }) => reason || !has_previous) ? 'stopped' : ''
  return state === 'watching' && wave === reached ? 'now' : ''
}

function Wave({ wave, rollout }: { wave: number; rollout: Details }) {
  const { state, wave: reached, applied_at, watched_until } = rollout
  const nodes = rollout.nodes.filter((node) => node.wave === wave)
  const isWatched = state === 'watching' && wave === reached && watched_until !== null && applied_at !== null
  return (
    <li className={`wave ${lookOf(rollout, wave, nodes)}`}>
      <div className="wave-head">
        <h3>Wave {wave}</h3>
        <WaveState rollout={rollout} wave={wave} nodes={nodes} />
      </div>
      {nodes.length === 0 ? (
        <p className="fine">No node is in this wave.</p>
      ) : (
        <ul>
          {nodes.map((node) => (
            <NodeLine key={node.name} node={node} rollout={rollout} />
          ))}
        </ul>
      )}
      {isWatched && <Progress from={Date.parse(applied_at)} until={Date.parse(watched_until)} />}
    </li>
  )
}

type StateProps = { rollout: Details; wave: number; nodes: readonly Node[] }

function WaveState({ rollout: { state, wave: reached, watched_until }, wave, nodes }: StateProps) {
  if (state === 'released') return <Badge tone="allowed">Released</Badge>
  if (state === 'halted')
    return nodes.every(({ has_previous }) => has_previous) ? (
      <Badge tone="neutral">As before</Badge>
    ) : (
      <Badge tone="warned">Being taken back</Badge>
    )
  if (reached === null || wave > reached) return <span className="fine">Not reached</span>
  if (state === 'watching' && wave === reached)
    return <Badge tone="neutral">{watched_until === null ? 'Getting it' : 'Watching'}</Badge>
  if (state === 'waiting') return <span className="fine">Not watched yet</span>
  return <span className="fine">{state === 'watching' ? 'Watched' : 'Getting it'}</span>
}

function NodeLine({ node, rollout }: { node: Node; rollout: Details }) {
  const isAdmin = $api.useQuery('get', '/caller').data?.role === 'admin'
  const [health, words] = stateOf(node, rollout)
  return (
    <li>
      <State health={health}>
        {isAdmin ? <Link to={`/nodes/${encodeURIComponent(node.name)}`}>{node.name}</Link> : node.name}
      </State>
      <span className="fine">{words}</span>
      {node.reason && <p className="fine refused-text">Refused it: {node.reason}</p>}
    </li>
  )
}

/** Unknown states are never shown as fine. */
function stateOf({ live, wave, has_changes, has_previous, reason }: Node, rollout: Details): [Health, string] {
  const { state, wave: reached } = rollout
  const isLater = state !== 'released' && state !== 'halted' && wave > (reached ?? -1)
  if (!live) {
    if (isLater) return ['unknown', 'not heard of; was never given it']
    return ['unknown', 'not heard of; what it has is not known']
  }
  if (reason && !has_previous) return ['partial', 'has not all of the changes']
  if (has_changes) return ['up', 'has the changes']
  if (has_previous) return ['up', isLater ? 'has what was before' : 'has what was before again']
  return ['partial', state === 'halted' ? 'has not said yet what it has' : 'does not have them yet']
}

/** Visual only: the sentence above says it in words. */
function Progress({ from, until }: { from: number; until: number }) {
  const now = useNow(true)
  const share = Math.min(1, Math.max(0, (now - from) / Math.max(1, until - from)))
  return (
    <span className="progress" aria-hidden="true">
      <i style={{ width: `${share * 100}%` }} />
    </span>
  )
}
