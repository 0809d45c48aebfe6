import { Link } from 'react-router'
import { Icon } from './icons.tsx'
import { type Status, stateOf } from './status.tsx'
import { Ago } from './time.tsx'
import { useCurrent } from './unread.ts'

/** Above everything else on the page: why it is not up, and which change of it is not on every node. */
export function StatusNote({ status }: { status: Status | undefined }) {
  const current = useCurrent(status)
  const { rollout, code } = current ?? {}
  return (
    <>
      {stateOf(current) !== 'up' && <Faulty status={current} />}
      {rollout && code !== 'rollout_halted' && (
        <p className={rollout.state === 'halted' ? 'note warned with-icon' : 'note plain with-icon'} role="status">
          <Icon name="rollouts" />
          <span>
            {rollout.state === 'halted'
              ? `A change was halted, so nodes have what was there before. ${rollout.reason ?? ''}`
              : 'A change is rolling out: some nodes have it, and others do not yet.'}{' '}
            <Link to={`/rollouts/${rollout.id}`}>Show the rollout</Link>
          </span>
        </p>
      )}
    </>
  )
}

function Faulty({ status }: { status: Status | undefined }) {
  return (
    <div className={stateOf(status) === 'down' ? 'note refused' : 'note warned'} role="status">
      <Icon name={stateOf(status) === 'down' ? 'refused' : 'warned'} />
      <div>
        <p className="strong">{status?.reason ?? 'The control plane did not say how this is.'}</p>
        {status?.code === 'rollout_halted' && status.rollout && (
          <p>
            <Link to={`/rollouts/${status.rollout.id}`}>Show the rollout</Link>
          </p>
        )}
        {status?.since && (
          <p>
            Since <Ago at={status.since} />
          </p>
        )}
      </div>
    </div>
  )
}
