"""OpenAI's Responses: parse, render, and the store behind previous_response_id."""
