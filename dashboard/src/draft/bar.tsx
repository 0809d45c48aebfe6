import { useQuery } from '@tanstack/react-query'
import { Link, useLocation } from 'react-router'
import { queries } from '../api/queries.ts'
import { Icon } from '../ui/icons.tsx'

/** On every page except the draft's own: the number of drafted changes, and a link to review them. */
export function DraftBar() {
  const drafts = useQuery(queries.drafts()).data ?? []
  const { pathname } = useLocation()
  return drafts
    .filter(({ id }) => !pathname.endsWith(id))
    .map(({ id, operations: { length } }) => (
      <p key={id} className="note plain your-draft" role="status">
        <Icon name="edit" />
        <span>
          <span className="strong">Your draft: {length === 1 ? '1 change' : `${length} changes`}.</span> Nothing has
          been changed yet.
        </span>
        <Link to={`/change-sets/${id}`}>Review draft</Link>
      </p>
    ))
}
