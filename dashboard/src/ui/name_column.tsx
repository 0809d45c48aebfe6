import { Link } from 'react-router'
import type { Column } from './table_model.ts'

/** First column of a list: the name with a link to the page, and the id below. */
export const nameColumn = <Row extends { id: string; description?: string | null }>(
  title: string,
  pages: string,
): Column<Row> => ({
  title,
  className: 'a1',
  isRowHead: true,
  sortBy: ({ description, id }) => description ?? id,
  cell: ({ id, description }) => (
    <span className="two">
      <Link className="row-link" to={`${pages}/${id}`}>
        {description ?? id}
      </Link>
      {description && <small className="mono hide-small">{id}</small>}
    </span>
  ),
})
