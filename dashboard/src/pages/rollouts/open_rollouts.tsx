import { Link } from 'react-router'
import type { Shapes } from '../../api/client.ts'
import { useOpenRollouts } from '../../shell/use_open_rollouts.ts'
import { Icon } from '../../ui/icons.tsx'

const shown = 5

/** Rollouts that are open or halted, for pages that show the progress of nodes. */
export function OpenRollouts({ only }: { only?: (rollout: Shapes['Rollout']) => boolean }) {
  const { rollouts: all, isUnread } = useOpenRollouts()
  const rollouts = all.filter((rollout) => only?.(rollout) ?? true)
  return (
    <>
      {isUnread && <p className="note plain">Whether a change is rolling out or was halted could not be read.</p>}
      {rollouts.slice(0, shown).map(({ id, state, cell, wave, waves }) => (
        <p key={id} className={state === 'halted' ? 'note warned with-icon' : 'note plain with-icon'} role="status">
          <Icon name={state === 'halted' ? 'halt' : 'rollouts'} />
          <span>
            {state === 'halted'
              ? `A change was halted in cell ${cell}, and no node is to have it.`
              : state === 'waiting'
                ? `A change in cell ${cell} is for wave 0 only, and waits for an earlier rollout.`
                : `A change is rolling out in cell ${cell}: wave ${wave} has it, and the last is wave ${waves - 1}.`}{' '}
            <Link to={`/rollouts/${id}`}>Show the rollout</Link>
          </span>
        </p>
      ))}
      {rollouts.length > shown && <Link to="/rollouts">and {rollouts.length - shown} more</Link>}
    </>
  )
}
