import { Link } from 'react-router'
import { Problem, SentForApproval, unreachable } from '../api/problem.ts'
import { Button } from './button.tsx'
import { Icon } from './icons.tsx'

const asProblem = (error: unknown): Problem => (error instanceof Problem ? error : unreachable())

type Props = { error: unknown; retry?: () => void }

/** What happened, what to do about it, and the operation id under which the log has it. */
export function ProblemNote({ error, retry }: Props) {
  if (error instanceof SentForApproval) return <SentNote sent={error} />
  const { message, hint, code, operationId } = asProblem(error)
  return (
    <div className="note refused" role="alert">
      <Icon name="refused" />
      <div>
        <p className="strong">{message}</p>
        <p>{hint}</p>
        <p className="fine mono">
          {code}
          {operationId && ` · ${operationId}`}
        </p>
        {retry && <Button onPress={retry}>Try again</Button>}
      </div>
    </div>
  )
}

/** The change has become a change set. */
function SentNote({ sent: { message, hint, changeSetId } }: { sent: SentForApproval }) {
  return (
    <div className="note warned" role="status">
      <Icon name="clock" />
      <div>
        <p className="strong">{message}</p>
        <p>{hint}</p>
        <p>
          <Link to={`/change-sets/${changeSetId}`}>Show the change set</Link>
        </p>
      </div>
    </div>
  )
}
