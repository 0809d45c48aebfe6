import { useQuery } from '@tanstack/react-query'
import { Link, useLocation } from 'react-router'
import { queries } from '../api/queries.ts'
import { Icon } from '../ui/icons.tsx'

/** On every page but its own: how much is in the draft, and the way to its review. */
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
